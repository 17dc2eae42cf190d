//! The table of operators: one line for each that is imported.

use super::super::cx::{Built, Cx};
use super::super::schema::Operator;
use super::{
    activation, arithmetic, blocks, index, lstm, matrix, more, names, pieces, pool, product, quantize, reduce, shape,
    state, suppress, whole,
};

/// Builds the nodes of an operator.
type Build = fn(&mut Cx<'_>, &Operator<'_>) -> Built;

/// By the number of the schema.
pub(crate) static TABLE: &[(i32, Build)] = &[
    (0, arithmetic::add),
    (1, pool::average_pool_2d),
    (2, pieces::concatenation),
    (3, product::conv_2d),
    (4, product::depthwise_conv_2d),
    (5, shape::depth_to_space),
    (6, quantize::dequantize),
    (7, index::embedding_lookup),
    (8, activation::floor),
    (9, product::fully_connected),
    (11, more::l2_normalization),
    (14, activation::logistic),
    (17, pool::max_pool_2d),
    (18, arithmetic::mul),
    (19, activation::relu),
    (20, activation::relu_n1_to_1),
    (21, activation::relu6),
    (22, shape::reshape),
    (23, pool::resize_bilinear),
    (25, activation::softmax),
    (26, shape::space_to_depth),
    (28, activation::tanh),
    (34, pieces::pad),
    (36, pieces::gather),
    (37, blocks::batch_to_space),
    (38, blocks::space_to_batch),
    (39, shape::transpose),
    (40, reduce::mean),
    (41, arithmetic::sub),
    (42, arithmetic::div),
    (43, shape::squeeze),
    (44, lstm::unidirectional_sequence_lstm),
    (45, pieces::strided_slice),
    (47, activation::exp),
    (48, index::top_k),
    (49, pieces::split),
    (50, more::log_softmax),
    (53, quantize::cast),
    (54, arithmetic::prelu),
    (55, arithmetic::maximum),
    (56, reduce::arg_max),
    (57, arithmetic::minimum),
    (58, arithmetic::less),
    (59, activation::neg),
    (60, pieces::pad),
    (61, arithmetic::greater),
    (62, arithmetic::greater_equal),
    (63, arithmetic::less_equal),
    (64, arithmetic::select),
    (65, pieces::slice),
    (66, activation::sin),
    (67, matrix::transpose_conv),
    (69, shape::tile),
    (70, shape::expand_dims),
    (71, arithmetic::equal),
    (72, more::not_equal),
    (73, activation::log),
    (74, reduce::sum),
    (75, activation::sqrt),
    (76, more::rsqrt),
    (77, shape::shape),
    (78, arithmetic::pow),
    (79, reduce::arg_min),
    (81, reduce::prod),
    (82, reduce::max),
    (83, shape::pack),
    (84, arithmetic::logical_or),
    (85, index::one_hot),
    (86, arithmetic::logical_and),
    (87, arithmetic::logical_not),
    (88, shape::unpack),
    (89, reduce::min),
    (90, whole::floor_div),
    (91, whole::any),
    (92, more::square),
    (93, whole::zeros_like),
    (94, more::fill),
    (95, whole::floor_mod),
    (96, whole::range),
    (97, pool::resize_nearest),
    (98, activation::leaky_relu),
    (99, more::squared_difference),
    (100, pieces::mirror_pad),
    (101, activation::abs),
    (102, pieces::split_v),
    (104, activation::ceil),
    (105, more::reverse),
    (106, more::add_n),
    (107, index::gather_nd),
    (108, activation::cos),
    (109, index::where_true),
    (110, more::rank),
    (111, activation::elu),
    (112, index::reverse_sequence),
    (114, quantize::quantize),
    (116, more::round),
    (117, activation::hard_swish),
    (120, suppress::v4),
    (121, suppress::v5),
    (122, index::scatter_nd),
    (123, arithmetic::select),
    (126, matrix::batch_matmul),
    (128, more::cumsum),
    (129, state::call_once),
    (130, shape::broadcast_to),
    (140, whole::all),
    (142, state::var_handle),
    (143, state::read_variable),
    (144, state::assign_variable),
    (150, more::gelu),
    (152, activation::relu_0_to_1),
    (158, more::sign),
    (160, whole::bitwise_xor),
];

/// The builder of a built-in operator.
pub(crate) fn find(code: i32) -> Option<Build> {
    TABLE.iter().find(|(c, _)| *c == code).map(|(_, build)| *build)
}

/// Why an operator is not in the table, and what would be accepted.
pub(crate) fn why_not(code: i32) -> String {
    let supported: Vec<_> = TABLE.iter().filter_map(|(c, _)| names::name(*c)).collect();
    match names::name(code) {
        Some(_) => format!("the operator is not supported; supported are {}", supported.join(", ")),
        None => format!("number {code} is no built-in operator that is known here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_line_has_a_name() {
        assert!(TABLE.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(TABLE.iter().all(|(code, _)| names::name(*code).is_some()));
    }
}
