; inherits: ecma
(public_field_definition) @value
(interface_body [(property_signature) (method_signature)] @value)
(type_alias_declaration value: (object_type [(property_signature) (method_signature)] @value))
(class_body (method_signature) @value)
(enum_body [(property_identifier) (enum_assignment)] @value)
(required_parameter (accessibility_modifier)) @value
