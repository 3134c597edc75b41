((call target: (identifier) @_name) @call
  (#match? @_name "^def(module|protocol|impl|guardp?|delegate|macrop?|p)?$"))
(unary_operator operand: (call target: (identifier) (arguments))) @attribute
