package report

import (
	"fmt"

	"grattoir/validate/money"
)

// Wrong is an ErrFilter whose words are known in both languages of the house.
type Wrong struct{ Text Text }

// Wrongf is a Wrong; the values stand in the same order in both texts, or are numbered.
func Wrongf(fr, en string, args ...any) error {
	return &Wrong{Text{fmt.Sprintf(fr, args...), fmt.Sprintf(en, args...)}}
}

func (w *Wrong) Error() string { return ErrFilter.Error() + ": " + w.Text.In(money.English) }

func (w *Wrong) Unwrap() error { return ErrFilter }
