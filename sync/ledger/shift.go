package ledger

import (
	"context"
	"errors"
	"fmt"

	"grattoir/validate"
	"grattoir/validate/money"
)

// maxFloat bounds a shift's float, in minor units: a typing error shows here, not at the closing.
const maxFloat money.Amount = 1_000_000_000

// OpenShift begins a shift: who is at the counter, and the cash counted into the till.
// The error is ErrShiftOpen while another one is open.
func (l *Ledger) OpenShift(ctx context.Context, operator string, float money.Amount, currency string) (validate.Shift, error) {
	if err := checkName("operator", operator); err != nil {
		return validate.Shift{}, fmt.Errorf("open a shift: %w", err)
	}
	if float < 0 || float > maxFloat || len(currency) != 3 || currency != short(currency, 3) {
		return validate.Shift{}, fmt.Errorf("open a shift: float of %d minor units of %.10q: want 0 to %d and a currency's three letters", float, currency, maxFloat)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var s validate.Shift
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		open, number, err := shiftNow(ctx, w.tx)
		if err != nil {
			return err
		}
		if open != nil {
			return fmt.Errorf("%w: shift %d of %.64q: close it first", ErrShiftOpen, open.Number, open.Operator)
		}
		n, m, err := w.append(ctx, KindShiftOpen, ShiftOpenBody{Shift: number + 1, Operator: operator, FloatMinor: float, Currency: currency})
		s = validate.Shift{Number: number + 1, Operator: operator, Float: float, Currency: currency, Entry: n, Opened: m.Device}
		return err
	})
	if err != nil {
		return validate.Shift{}, fmt.Errorf("open a shift: %w", err)
	}
	return s, nil
}

// CloseShift ends the open shift with its Z. The error is ErrNoShift when none is open.
func (l *Ledger) CloseShift(ctx context.Context, end Ending) (validate.Closing, error) {
	return l.Z(ctx, validate.ShiftClosing, end)
}

// Shift is the open shift, nil when there is none. It is known after a restart.
func (l *Ledger) Shift(ctx context.Context) (*validate.Shift, error) {
	s, _, err := shiftNow(ctx, l.read)
	return s, err
}

// shiftNow reads the open shift, or nil, and the number of the newest one.
func shiftNow(ctx context.Context, q querier) (open *validate.Shift, number int64, err error) {
	closed, err := lastMark(ctx, q, validate.ShiftClosing, endOfTime())
	if err != nil {
		return nil, 0, fmt.Errorf("read the open shift: %w", err)
	}
	e, err := newestOf(ctx, q, KindShiftOpen)
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the open shift: %w", err)
	}
	b, err := e.ShiftOpen()
	if err != nil {
		return nil, 0, fmt.Errorf("%w: entry %d-%d: %w", ErrDamaged, e.Epoch, e.Seq, err)
	}
	if b.Shift == closed.number {
		return nil, b.Shift, nil
	}
	at, err := parseTime(e.Time)
	return &validate.Shift{Number: b.Shift, Operator: b.Operator, Float: b.FloatMinor, Currency: b.Currency,
		Entry: validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}, Opened: at}, b.Shift, err
}

// newestOf is the newest entry of a kind that is no claim, or ErrNotFound.
func newestOf(ctx context.Context, q querier, kind Kind) (Entry, error) {
	found := Entry{}
	err := eachEntry(ctx, q, "WHERE kind = ? AND kind <> 'claim' ORDER BY epoch DESC, seq DESC LIMIT 1", []any{kind}, func(e Entry) error {
		found = e
		return nil
	})
	if err == nil && found.Seq == 0 {
		err = ErrNotFound
	}
	return found, err
}

// SetTraining begins or ends training, in which Record refuses every claim: training
// sales are never in claims nor totals. Setting what is set already writes nothing.
func (l *Ledger) SetTraining(ctx context.Context, on bool, operator string) error {
	if err := checkName("operator", operator); err != nil {
		return fmt.Errorf("training: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.training == on {
		return nil
	}
	err := l.write(ctx, func(ctx context.Context, w *writing) error {
		_, _, err := w.append(ctx, KindTraining, TrainingBody{On: on, Operator: operator})
		return err
	})
	if err != nil {
		return fmt.Errorf("training: %w", err)
	}
	l.training = on
	return nil
}

// Training tells whether training is on. It outlives a restart.
func (l *Ledger) Training() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.training
}

func (l *Ledger) loadTraining(ctx context.Context) error {
	e, err := newestOf(ctx, l.db, KindTraining)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := e.Training()
	l.training = b.On
	return err
}
