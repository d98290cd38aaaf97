# egpu_string_literal(TEXT OUT): sets OUT to TEXT as adjacent raw C++ literals, because compilers limit the length of a
# literal. TEXT must not contain )egpu_text".
function(egpu_string_literal text out)
  set(result "")
  string(LENGTH "${text}" length)
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND result "R\"egpu_text(${piece})egpu_text\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()
