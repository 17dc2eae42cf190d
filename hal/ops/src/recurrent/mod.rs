//! Operators of the recurrent family: RNN, GRU, LSTM, and the integer LSTM of TFLite.

use crate::Op;

mod gru;
mod lstm;
mod lstm_form;
mod lstm_integer;
mod real;
mod rnn;
mod sequence;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[&gru::Gru, &lstm::Lstm, &lstm_integer::LstmInteger, &rnn::Rnn];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
