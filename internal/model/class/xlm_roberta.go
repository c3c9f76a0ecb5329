package class

// xlmRoberta is RoBERTa with a vocabulary of a hundred languages (XLM-R; multilingual sentence models).
var xlmRoberta = headFirst(robertaOf("xlm-roberta", "XLMRoberta", 30522))

// headFirst is a class that makes its language model's head before the model below it.
func headFirst(c Class) Class {
	c.First = "lm_head."
	return c
}
