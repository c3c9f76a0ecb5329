//go:build thorough

package thorough

// On is true if everything is tried.
const On = true
