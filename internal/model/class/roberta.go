package class

// roberta is BERT with positions that begin behind the padding's row, and its own words.
var roberta = robertaOf(bert)

func robertaOf(c Class) Class {
	c.Arch, c.Offset, c.Spec.Vocab = "roberta", 2, 50265
	c.Heads = []string{"RobertaForMaskedLM", "RobertaForSequenceClassification", "RobertaForTokenClassification", "RobertaForQuestionAnswering"}
	return c
}
