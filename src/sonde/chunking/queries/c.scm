(field_declaration) @value
(enumerator) @value
(preproc_def) @value
(translation_unit (declaration) @value)
(preproc_ifdef (declaration) @value)
(preproc_if (declaration) @value)
(preproc_else (declaration) @value)
(linkage_specification (declaration) @value)
(declaration_list (declaration) @value)
