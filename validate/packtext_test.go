package validate

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"grattoir/validate/money"
)

func TestEveryPackNoteHasWordsThatFitTheClerksScreen(t *testing.T) {
	codes := map[string]bool{}
	for _, n := range PackNotes() {
		if codes[n.Code()] || !regexp.MustCompile(`^K[1-9]$`).MatchString(n.Code()) || len(n.Technician()) < 20 {
			t.Errorf("%s: code %q, technician %q", n, n.Code(), n.Technician())
		}
		codes[n.Code()] = true
		fr, en := n.Text(money.French), n.Text(money.English)
		if fr == en {
			t.Errorf("%s has one language", n)
		}
		for _, x := range []Text{fr, en} {
			for place, text := range map[string]string{"word": x.Word, "clerk": x.Clerk, "next": x.Next, "player": x.Player} {
				lines := strings.Split(text, "\n")
				if text == "" || len(lines) > 2 || len(lines) > 1 && (place == "word" || place == "player") {
					t.Errorf("%s, %s: %q", n, place, text)
				}
				for _, line := range lines {
					if c := utf8.RuneCountInString(line); c > 32 && place != "player" || place == "word" && c > 20 {
						t.Errorf("%s, %s: %d columns: %q", n, place, c, line)
					}
				}
				if (place == "word") != (strings.ToUpper(text) == text) {
					t.Errorf("%s, %s: %q", n, place, text)
				}
			}
		}
	}
	if unknown := PackNote("later").Text(money.English); unknown != NotePackUnknown.Text(money.English) {
		t.Errorf("a note that is not known reads %+v", unknown)
	}
}

func TestNoteSaysTheWorstThatIsKnown(t *testing.T) {
	run := []TicketRun{{First: 5, Last: 9}}
	own := Pack{Known: true, Own: true, State: PackActive}
	with := func(edit func(*Pack)) Pack { p := own; edit(&p); return p }
	for _, x := range []struct {
		pack Pack
		want PackNote
	}{
		{own, NotePackActive}, {Pack{}, NotePackUnknown}, {with(func(p *Pack) { p.State = "later" }), NotePackUnknown},
		{with(func(p *Pack) { p.State = PackPrinted }), NotePackUnknown}, {with(func(p *Pack) { p.State = PackDelivered }), NotePackDelivered},
		{with(func(p *Pack) { p.State = PackSettled }), NotePackSettled}, {with(func(p *Pack) { p.Own = false }), NotePackElsewhere},
		{with(func(p *Pack) { p.Own, p.State = false, PackStolenNow }), NotePackStolen}, {with(func(p *Pack) { p.Own, p.State = false, PackReturn }), NotePackReturned},
		{with(func(p *Pack) { p.Stolen = run }), NoteTicketStolen}, {with(func(p *Pack) { p.Returned = run }), NoteTicketReturned},
		{with(func(p *Pack) { p.Returned, p.Stolen = run, run }), NoteTicketStolen}, {with(func(p *Pack) { p.Stolen, p.State = run, PackReturn }), NoteTicketStolen},
		{with(func(p *Pack) { p.Stolen, p.State = run, PackStolenNow }), NotePackStolen},
	} {
		if got := x.pack.Note(7); got != x.want {
			t.Errorf("%+v: %s, want %s", x.pack, got, x.want)
		}
	}
	if got := with(func(p *Pack) { p.Stolen = run }).Note(10); got != NotePackActive {
		t.Errorf("a ticket beside the stolen ones: %s", got)
	}
}

func TestTicketsOwnStateWinsOverItsPacks(t *testing.T) {
	for _, x := range [][3]PackState{
		{PackActive, "", PackActive}, {PackActive, PackReturn, PackReturn}, {PackActive, PackStolenNow, PackStolenNow}, {PackReturn, PackStolenNow, PackStolenNow},
		{PackStolenNow, PackReturn, PackStolenNow}, {PackDelivered, PackReturn, PackReturn}, {"", "", ""}, {PackSettled, "", PackSettled},
	} {
		if got := x[0].OfTicket(x[1]); got != x[2] {
			t.Errorf("%q with %q is %q, want %q", x[0], x[1], got, x[2])
		}
	}
}
