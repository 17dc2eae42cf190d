//! `ottava-loader`: finds, checks and loads driver plugins and adapts their tables to the driver contract.
