package class

// camembert is RoBERTa in French.
var camembert = headFirst(robertaOf("camembert", "Camembert", 30522))
