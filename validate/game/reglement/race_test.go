//go:build race

package reglement

const race = true
