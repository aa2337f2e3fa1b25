// Package money is exact money: whole minor units (cents), arithmetic that
// refuses to overflow, and the text of an amount in French and English, in
// figures and in words. It never uses a float. Start at Amount.
package money

import (
	"errors"
	"fmt"
	"math/bits"
)

// Amount is a sum in minor units of a currency known from its context: 2000 is 20 EUR.
type Amount int64

// ErrOverflow means a sum or product does not fit 64 bits. Nothing is paid on it.
var ErrOverflow = errors.New("amount too large")

// Add returns a + b, or ErrOverflow.
func (a Amount) Add(b Amount) (Amount, error) {
	sum := a + b
	if (b > 0 && sum < a) || (b < 0 && sum > a) {
		return 0, fmt.Errorf("%d + %d: %w", a, b, ErrOverflow)
	}
	return sum, nil
}

// Times returns a * n for a count n >= 0, or ErrOverflow. A negative amount or count is refused.
func (a Amount) Times(n int64) (Amount, error) {
	if a < 0 || n < 0 {
		return 0, fmt.Errorf("%d x %d: negative factor", a, n)
	}
	hi, lo := bits.Mul64(uint64(a), uint64(n))
	if hi != 0 || lo > 1<<63-1 {
		return 0, fmt.Errorf("%d x %d: %w", a, n, ErrOverflow)
	}
	return Amount(lo), nil
}

// Language is the language of a text for people. French is the first one everywhere.
type Language string

const (
	French  Language = "fr"
	English Language = "en"
)
