(container_field) @value
(struct_declaration (variable_declaration) @value)
(enum_declaration (variable_declaration) @value)
(union_declaration (variable_declaration) @value)
