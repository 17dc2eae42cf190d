//! Libraries: what the configuration and the search find, loaded or refused.
