(data_constructor) @value
(newtype_constructor) @value
(gadt_constructor) @value
(field name: (_)) @value
(class_declarations (signature) @function)
(local_binds (function) @function)
