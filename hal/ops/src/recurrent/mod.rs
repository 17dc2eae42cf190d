//! Operators of the recurrent family: RNN, GRU, LSTM.

use crate::Op;

mod gru;
mod lstm;
mod real;
mod rnn;
mod sequence;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[&gru::Gru, &lstm::Lstm, &rnn::Rnn];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
