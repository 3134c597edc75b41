(variable_declarator value: [(arrow_function) (function_expression) (class)]) @function
(pair value: [(arrow_function) (function_expression)]) @function
(assignment_expression right: [(arrow_function) (function_expression) (class)]) @function
(function_expression name: (_)) @function
