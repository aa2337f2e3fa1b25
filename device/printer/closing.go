package printer

import (
	"context"

	"grattoir/device/terminal"
	"grattoir/validate"
)

// Closing lays out the slip of a closing, or of an X report.
func (st Stationery) Closing(c validate.Closing) Slip {
	say := wordsFor(st.Language)
	s := st.head()
	for _, l := range c.Lines() {
		label := l.Label(st.Language)
		switch {
		case l.Kind == validate.RuleLine:
			s.Rule()
		case l.Kind == validate.TitleLine:
			s.Line(label, Bold, Centre)
		case l.Kind == validate.HeadLine:
			s.Line(label, Bold)
		case l.Kind == validate.TextLine && l.Text == "" && !l.Time.IsZero():
			s.Pair(label, l.Time.In(st.Zone).Format(say.dateLayout))
		default:
			s.Pair(label, l.Value(st.Language))
		}
	}
	return s
}

// PrintClosing prints the slip of a closing.
func (d Desk) PrintClosing(ctx context.Context, c validate.Closing) (validate.PrintState, error) {
	return d.print(ctx, d.Stationery.Closing(c), false, func(*terminal.Fault) {})
}
