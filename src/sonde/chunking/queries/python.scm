(class_definition body: (block (expression_statement (assignment) @value)))
(function_definition body: (block (expression_statement (assignment left: (attribute)) @attribute)))
