//! `ottava-plugin`: the vendor kit: a driver written against safe traits becomes a plugin.
