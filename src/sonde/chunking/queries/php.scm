(property_element) @value
(enum_case) @value
(property_promotion_parameter) @value
(namespace_definition) @space
