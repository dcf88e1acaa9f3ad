"""The bundled collection: invented countries, passages about them, and questions."""
