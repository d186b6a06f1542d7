"""WHERE DOES IT RUN? Each place starts a command and hands back its process."""
