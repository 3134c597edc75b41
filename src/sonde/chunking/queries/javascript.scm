; inherits: ecma
(field_definition) @value
