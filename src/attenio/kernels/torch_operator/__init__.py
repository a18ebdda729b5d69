"""What PyTorch sees of attention: two registered operators, their fakes and gradients, and how ``vmap`` maps them."""
