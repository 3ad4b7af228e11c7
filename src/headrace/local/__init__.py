"""What runs on this machine: jars, Java, the embedded broker, and the doctor that looks after them."""
