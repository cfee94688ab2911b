# SPDX-License-Identifier: BSD-2-Clause
# Warnings and sanitizers, for everything that is built here.
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
add_compile_options(${warnings})
if(COJOIN_WERROR)
  add_compile_options(-Werror)
endif()
if(COJOIN_SANITIZE)
  add_compile_options(-fsanitize=${COJOIN_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${COJOIN_SANITIZE})
endif()
