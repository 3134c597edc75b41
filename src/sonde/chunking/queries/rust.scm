(field_declaration) @value
(enum_variant) @value
