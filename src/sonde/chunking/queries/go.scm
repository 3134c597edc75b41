(field_declaration) @value
(method_elem) @function
