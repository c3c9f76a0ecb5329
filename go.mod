module ckptplan

go 1.26
