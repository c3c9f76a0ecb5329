package solve

// lowestOfGroups splits a list into groups of neighbours and keeps the one with the lowest score of each, in place. With
// labels in order of memory a beam stays wide: of equal layers many have the same score, and those alone would be one
// mix of options at many sizes.
func lowestOfGroups[T any](list []T, groups int, score func(*T) float64) []T {
	n := len(list)
	if n <= groups {
		return list
	}
	for g := range groups {
		from, end := g*n/groups, (g+1)*n/groups
		best, least := from, score(&list[from])
		for k := from + 1; k < end; k++ {
			if x := score(&list[k]); x < least {
				best, least = k, x
			}
		}
		list[g] = list[best]
	}
	return list[:groups]
}
