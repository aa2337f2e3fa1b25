package ledger

import (
	"context"
	"errors"
	"strings"
	"testing"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// auditHead invents the head of an audit.
func auditHead(name string, seq int64) AuditHead {
	return AuditHead{Audit: name, Seq: seq, Hash: hashLine([]byte{byte(seq), byte(seq >> 8)}).String()}
}

// noted are the entries of a journal that note audits, as numbers and heads.
func noted(t testing.TB, l *Ledger) []NotedAudit {
	t.Helper()
	list, err := l.AuditHeads(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestWhatIsSignedCoversTheAuditsBesideTheLedger: at a closing and at a stop the end of
// each audit is an entry at or before the one whose hash is signed.
func TestWhatIsSignedCoversTheAuditsBesideTheLedger(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	opt := options(t.TempDir())
	operators, identities := auditHead("operators", 5), auditHead("identities", 2)
	var heads []AuditHead
	opt.Audits = func(context.Context) []AuditHead { return heads }
	var signed string
	opt.Sign = func(text []byte) ([]byte, error) { signed = string(text); return s.sign(text) }
	l := openTest(t, opt)
	record(t, l, claim(t, 1))

	heads = []AuditHead{operators, {Audit: "identities"}} // that one has no line yet
	c, err := l.Z(ctx, validate.DayClosing, Ending{Operator: "marie"})
	if err != nil || signed != HeadText(c) || c.Entry.Seq != 4 { // claim, audits, the block's name, closing
		t.Fatalf("%+v, signed %q: %v", c.Entry, signed, err)
	}
	first := noted(t, l)
	if len(first) != 1 || first[0].AuditHead != operators || first[0].Entry.Seq != 2 {
		t.Fatalf("before the closing the journal notes %+v", first)
	}

	heads = []AuditHead{operators, identities}
	for range 2 { // the second time there is nothing new
		if err := l.SignHead(ctx, HeadStop); err != nil {
			t.Fatal(err)
		}
	}
	h := l.Head()
	want := wire.HeadText("T-1", wire.Position{Epoch: h.Epoch, Seq: h.Seq, Hash: h.Hash.String()})
	list := noted(t, l)
	if len(list) != 3 || list[2].AuditHead != identities || list[2].Entry.Seq != 5 || h.Seq != 5 || signed != want {
		t.Fatalf("at the stop the journal ends at %d, notes %+v, and %q is signed", h.Seq, list, signed)
	}
	if p := proved(t, l, s.Keys); p.Covered() != 5 {
		t.Fatalf("%+v", p)
	}
	i, err := Inspect(ctx, opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if again, err := i.AuditHeads(ctx); err != nil || len(again) != 3 {
		t.Fatalf("%+v %v", again, err)
	}
}

// TestAuditThatWentBackIsNotedAgain: a file that was put back from a copy is told by the
// journal, and hides what was noted before from nobody.
func TestAuditThatWentBackIsNotedAgain(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	heads := []AuditHead{auditHead("operators", 9)}
	opt.Audits = func(context.Context) []AuditHead { return heads }
	opt.Sign = func([]byte) ([]byte, error) { return []byte("signature"), nil }
	l := openTest(t, opt)
	for _, seq := range []int64{9, 4, 4, 9} {
		heads = []AuditHead{auditHead("operators", seq)}
		if err := l.SignHead(ctx, HeadUpload); err != nil {
			t.Fatal(err)
		}
	}
	var got []int64
	for _, n := range noted(t, l) {
		got = append(got, n.Seq)
	}
	if len(got) != 3 || got[0] != 9 || got[1] != 4 || got[2] != 9 {
		t.Fatalf("the journal notes lines %v", got)
	}
}

// TestNothingIsNotedWhereNothingIsSigned: a terminal alone signs no head, and an audit
// that makes no sense stops the closing before it is one.
func TestNothingIsNotedWhereNothingIsSigned(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	heads := []AuditHead{auditHead("operators", 1)}
	opt.Audits = func(context.Context) []AuditHead { return heads }
	l := openTest(t, opt)
	if err := l.SignHead(ctx, HeadStop); err != nil || l.Head().Seq != 0 {
		t.Fatalf("%+v %v", l.Head(), err)
	}
	heads[0].Hash = strings.ToUpper(heads[0].Hash)
	if _, err := l.Z(ctx, validate.DayClosing, Ending{Operator: "marie"}); !errors.Is(err, ErrEntry) || l.Head().Seq != 0 {
		t.Fatalf("%+v %v", l.Head(), err)
	}
}

// TestNoteOfAnAuditIsReadStrictly: what the journal notes is never guessed.
func TestNoteOfAnAuditIsReadStrictly(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for body, good := range map[string]bool{
		`{"heads":[{"audit":"operators","seq":1,"hash":"` + hash + `"}]}`: true,
		`{"heads":[]}`:   false,
		`{"heads":null}`: false,
		`{"heads":[{"audit":"","seq":1,"hash":"` + hash + `"}]}`:                           false,
		`{"heads":[{"audit":"operators","seq":0,"hash":"` + hash + `"}]}`:                  false,
		`{"heads":[{"audit":"operators","seq":1,"hash":"` + hash[1:] + `"}]}`:              false,
		`{"heads":[{"audit":"operators","seq":1,"hash":"` + hash + `","more":1}]}`:         false,
		`{"heads":[{"seq":1,"audit":"operators","hash":"` + hash + `"}]}`:                  false,
		`{"heads":[{"audit":"operators","seq":1,"hash":"` + strings.ToUpper(hash) + `"}]}`: false,
	} {
		if _, err := (Entry{Kind: KindAuditHeads, Body: []byte(body)}).AuditHeads(); (err == nil) != good {
			t.Errorf("%s: %v", body, err)
		}
	}
}
