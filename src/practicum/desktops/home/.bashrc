# The same prompt on every machine, whatever its name.
PS1='user@desktop:\w\$ '
HISTFILE=
alias ls='ls --color=auto'
