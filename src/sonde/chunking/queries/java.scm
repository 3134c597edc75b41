(enum_constant) @value
(annotation_type_element_declaration) @function
(record_declaration parameters: (formal_parameters (formal_parameter) @value))
