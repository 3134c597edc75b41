(enum_entry) @value
(class_parameter ["val" "var"]) @value
(companion_object) @type
