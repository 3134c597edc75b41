(field name: (identifier) value: (function_definition)) @function
(assignment_statement (expression_list value: (function_definition))) @function
