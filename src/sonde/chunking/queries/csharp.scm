(enum_member_declaration) @value
(event_declaration) @value
(event_field_declaration (variable_declaration (variable_declarator) @value))
(record_declaration (parameter_list (parameter) @value))
[(namespace_declaration) (file_scoped_namespace_declaration)] @space
