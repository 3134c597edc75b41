((call method: (identifier) @_name) @attribute
  (#match? @_name "^(attr_(accessor|reader|writer)|define_method|alias_method)$"))
(alias) @function
