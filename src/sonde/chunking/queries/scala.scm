(simple_enum_case) @value
(full_enum_case) @type
(class_parameter) @value
[(val_declaration) (var_declaration)] @value
