; inherits: c
(field_declaration_list (declaration) @value)
(template_declaration (declaration) @value)
(namespace_definition) @space
