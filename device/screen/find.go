package screen

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// A payment that is older than the shift is found by its number, which is typed, by its
// ticket, or by the code on its slip, which are scanned.

const (
	seqDigits = 6  // that a slip has at least behind the epoch
	maxNumber = 14 // digits of a slip's number
	maxEpochs = 5  // of the journal that are looked through for a number without one
)

// numbersOf are the entries that typed digits can mean, the likeliest first: a slip's number
// whole, without its dash, or the digits behind it alone, in the newest epoch or one before.
func numbersOf(digits string, newest int64) (list []validate.EntryNumber) {
	number := func(epoch int64, text string) {
		if seq, err := strconv.ParseInt(text, 10, 64); err == nil && seq > 0 && epoch > 0 {
			list = append(list, validate.EntryNumber{Epoch: epoch, Seq: seq})
		}
	}
	for long := seqDigits; long < len(digits); long++ { // a longer one begins with no 0
		at := len(digits) - long
		if epoch, err := strconv.ParseInt(digits[:at], 10, 64); err == nil && digits[0] != '0' && (long == seqDigits || digits[at] != '0') {
			number(epoch, digits[at:])
		}
	}
	for epoch := newest; epoch > 0 && epoch > newest-maxEpochs; epoch-- {
		number(epoch, digits)
	}
	return list
}

// findSlip shows the slip whose number was typed.
func (s *Screen) findSlip(ctx context.Context, x sheet, f url.Values) error {
	if x.name != findSheet {
		return terminal.ErrStale
	}
	newest := int64(1)
	if last, err := s.opt.Terminal.Last(ctx, 1); err == nil && len(last) > 0 {
		newest = last[0].Number.Epoch
	}
	if digits := f.Get("digits"); len(digits) <= maxNumber {
		for _, n := range numbersOf(digits, newest) {
			if s.laySlip(ctx, n.String(), x) == nil {
				return nil
			}
		}
	}
	return errDigits
}

// laySlip shows the slip of a payment with what became of it, in the place of a sheet that
// lies there, or over the counter.
func (s *Screen) laySlip(ctx context.Context, entry string, x sheet) error {
	var n validate.EntryNumber
	if _, err := fmt.Sscanf(entry, "%d-%d", &n.Epoch, &n.Seq); err != nil {
		return fmt.Errorf("entry %.30q: want it as on a slip, 1-000045", entry)
	}
	r, err := s.opt.Terminal.Receipt(ctx, n)
	if err != nil {
		return err
	}
	back, err := s.opt.Terminal.ReversalOf(ctx, n)
	if err != nil {
		return err
	}
	next := sheet{name: slipSheet, receipt: &r, sought: true, serial: x.serial, over: x.over, since: x.since}
	if back != nil {
		next.acts = []validate.Transaction{{Entry: back.Entry, At: back.At, Reversal: back}}
	}
	if x.name == noSheet {
		s.lay(next)
	} else {
		s.keep(next)
	}
	return nil
}

// slipOn is the payment of this terminal's that the view is about: its ticket was paid here
// before, or its slip's code was scanned. "" for none.
func slipOn(v terminal.View) string {
	switch {
	case v.Stage != terminal.Verdict:
		return ""
	case v.OfSlip != validate.EntryNumber{}:
		return v.OfSlip.String()
	case v.Verdict.Reason == validate.AlreadyPaidHere && v.Verdict.Paid != nil:
		return v.Verdict.Paid.Number
	}
	return ""
}

// offerSlip offers the slip of a payment that the view is about. A slip's code that was
// scanned in a ticket's place is told as what it is.
func (v *view) offerSlip(on terminal.View) {
	entry := slipOn(on)
	if entry == "" {
		return
	}
	w := v.W
	if (on.OfSlip != validate.EntryNumber{}) {
		v.Look, v.Word, v.Clerk, v.NextStep, v.Code, v.Details = lookAsk, w.SlipTitle(unbroken(entry)), w.SlipScanned(), w.SlipScannedNext(), "", nil
	}
	b := opens(slipSheet, w.ShowSlip(), field{"entry", entry})
	b.ID = "slip"
	v.Acts = append(v.Acts, b)
}
