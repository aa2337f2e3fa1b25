package scanner

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"grattoir/validate/ticket"
)

var start = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// step is bytes, and the silence the line had before them.
type step struct {
	after time.Duration
	bytes string
}

// play feeds steps, telling the decoder of silence as the read loop does, and a
// last silence at the end. Scans come as "AIM|text", faults as their code.
func play(d *Decoder, steps ...step) []string {
	at := start
	var got []string
	note := func(events []Event) {
		for _, e := range events {
			switch {
			case e.Fault != nil:
				got = append(got, e.Fault.Code)
			default:
				got = append(got, e.Scan.AIM+"|"+e.Scan.Text)
			}
		}
	}
	for _, s := range steps {
		at = at.Add(s.after)
		if s.after > 0 {
			note(d.Silence(at))
		}
		note(d.Feed([]byte(s.bytes), at))
	}
	note(d.Silence(at.Add(time.Second)))
	return got
}

const ms = time.Millisecond

// withParity sets the top bit of each byte to make its parity even (0) or odd (1).
func withParity(s string, odd int) string {
	b := []byte(s)
	for i, c := range b {
		if bits.OnesCount8(c)&1 != odd {
			b[i] |= 0x80
		}
	}
	return string(b)
}

func TestDecoderFieldFailures(t *testing.T) {
	const code = "123456789012345678901234567890"
	for _, c := range []struct {
		name  string // what happened, and where it was first seen
		steps []step
		want  []string
	}{
		{"CR", []step{{0, "1234\r"}}, []string{"|1234"}},
		{"LF", []step{{0, "1234\n"}}, []string{"|1234"}},
		{"CR LF is one end", []step{{0, "1234\r\n"}}, []string{"|1234"}},
		{"TAB", []step{{0, "1234\t"}}, []string{"|1234"}},
		{"CR CR makes no second scan", []step{{0, "1234\r\r"}}, []string{"|1234"}},
		{"empty records", []step{{0, "\r\n\t\r"}}, nil},
		{"split in three, 20 ms apart (node-serialport#1622)", []step{{0, "123"}, {20 * ms, "456"}, {20 * ms, "789\r"}}, []string{"|123456789"}},
		{"no suffix is no scan (node-serialport#1622)", []step{{0, code}}, []string{CodeNoSuffix}},
		{"suffix too late", []step{{0, "1234"}, {200 * ms, "\r"}}, []string{CodeNoSuffix}},
		{"glued, mixed ends", []step{{0, "1111\r2222\r\n3333\n"}}, []string{"|1111", "|2222", "|3333"}},
		{"glued and split", []step{{0, "1111\r22"}, {5 * ms, "22\r"}}, []string{"|1111", "|2222"}},
		{"CR inside a symbol gives two halves for the length gate (WebSerialBarcodeScanner#1)", []step{{0, "]Q11234567890\r123456789012345\r"}}, []string{"]Q1|1234567890", "|123456789012345"}},
		{"cut short, then a good one (woocommerce-ios#15823)", []step{{0, "12345"}, {500 * ms, code + "\r"}}, []string{CodeNoSuffix, "|" + code}},
		{"read twice in quick succession (chez-betty#298)", []step{{0, code + "\r"}, {150 * ms, code + "\r"}, {5 * time.Second, code + "\r"}}, []string{"|" + code, "|" + code}},
		{"left under a continuous scanner", []step{{0, "1\r"}, {time.Second, "1\r"}, {time.Second, "1\r"}, {time.Second, "1\r"}}, []string{"|1"}},
		{"another code between is another scan", []step{{0, "1\r2\r1\r"}}, []string{"|1", "|2", "|1"}},
		{"doubled code is one long record (chez-betty#298)", []step{{0, "12341234\r"}}, []string{"|12341234"}},
		{"GS stays inside (bwip-js#363)", []step{{0, "]d20112345\x1d10AB\r"}}, []string{"]d2|0112345\x1d10AB"}},
		{"AIM alone is empty", []step{{0, "]d1\r"}}, nil},
		{"bracket that is no AIM", []step{{0, "]12\r"}}, []string{"|]12"}},
		{"STX and ETX", []step{{0, "\x02]I01234\x03\r"}}, []string{"]I0|1234"}},
		{"STX ETX and nothing more", []step{{0, "\x021234\x03"}, {5 * ms, "\x025678\x03"}}, []string{"|1234", "|5678"}},
		{"ETX CR without STX", []step{{0, "1234\x03\r"}}, []string{"|1234"}},
		{"NUL is damage, never deleted", []step{{0, "12\x0034\r"}}, []string{CodeDamaged}},
		{"NUL and no suffix", []step{{0, "12\x0034"}}, []string{CodeDamaged}},
		{"stray XON and ACK with an end mark", []step{{0, "\x11\x06\r1234\r"}}, []string{"|1234"}},
		{"stray XON and ACK (rusefi#4359)", []step{{0, "\x11\x06"}, {200 * ms, "1234\r"}}, []string{"|1234"}},
		{"7E1 read as 8N1, CR", []step{{0, withParity("]d11234567890\r", 0)}}, []string{CodeParity}},
		{"7E1 read as 8N1, CR LF", []step{{0, withParity("]d11234567890\r\n", 0)}}, []string{CodeParity}},
		{"7O1 read as 8N1", []step{{0, withParity("]d11234567890\r", 1)}}, []string{CodeParity}},
		{"wrong speed", []step{{0, "\x00\xff\x80\xe6\x00\x98\xf8\x18\r"}}, []string{CodeGarbage}},
		{"wrong speed, one fault a burst", []step{{0, "\xff\xe6\x98\r\xff\xe6\x98\r\xff\xe6\x98\r"}}, []string{CodeGarbage}},
		{"after a good scan a fault is news", []step{{0, "12\x0034\r" + code + "\r12\x0034\r"}}, []string{CodeDamaged, "|" + code, CodeDamaged}},
		{"wrong speed, next burst", []step{{0, "\xff\xe6\x98\r"}, {time.Second, "\xff\xe6\x98\r"}}, []string{CodeGarbage, CodeGarbage}},
		{"a web page's symbol with accents is text", []step{{0, "café\r"}}, []string{"|café"}},
		{"endless record, then back in step (go-serial#189)", []step{{0, strings.Repeat("7", 3000) + "\r1234\r"}}, []string{CodeGarbage, "|1234"}},
		{"endless record, silence, then back in step", []step{{0, strings.Repeat("7", 3000)}, {time.Second, "1234\r"}}, []string{CodeGarbage, "|1234"}},
		{"longest record", []step{{0, strings.Repeat("7", MaxRecord) + "\r"}}, []string{"|" + strings.Repeat("7", MaxRecord)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(NewDecoder(Config{}), c.steps...); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// codes of the shipped layouts, by their digits: 40, 18 and 24 of them.
const (
	code40 = "1004110000007017481920364758102938475612"
	code18 = "200411000000701799"
	code24 = "041100000070174819203647"
)

var shippedLayouts = sync.OnceValue(func() []ticket.Layout { return []ticket.Layout{ticket.G40(), ticket.G18(), ticket.TX24()} })

func onlyTX24() []ticket.Layout { return []ticket.Layout{ticket.TX24()} }

func TestDecoderWithNoSuffixTakesOnlyWholeCodes(t *testing.T) {
	none := Config{Suffix: SuffixNone, Layouts: shippedLayouts}
	for _, c := range []struct {
		name  string
		cfg   Config
		steps []step
		want  []string
	}{
		{"a whole code", none, []step{{0, code40}}, []string{"|" + code40}},
		{"a whole code in pieces", none, []step{{0, code40[:7]}, {99 * ms, code40[7:]}}, []string{"|" + code40}},
		{"two, with silence between", none, []step{{0, code40}, {250 * ms, "]Cx"}, {250 * ms, "]C1" + code18}}, []string{"|" + code40, CodeNoSuffix, "]C1|" + code18}},
		{"end marks count all the same", none, []step{{0, code40 + "\r"}, {time.Second, "77\r"}}, []string{"|" + code40, "|77"}},
		{"20 and 25 digits glued, then 12 alone (barcode-scan-listener#2)", none,
			[]step{{0, strings.Repeat("31", 10) + strings.Repeat("4", 25)}, {time.Second, "123456789012"}}, []string{CodeNoSuffix, CodeNoSuffix}},
		{"two glued", none, []step{{0, code40 + code18}}, []string{CodeNoSuffix}},
		{"a code after a record of the same burst may have lost its beginning", none, []step{{0, "99\r" + code18}}, []string{"|99", CodeNoSuffix}},
		{"a piece as long as a layout without check digits", none, []step{{0, code40[:24]}, {250 * ms, code40[24:]}}, []string{CodeNoSuffix, CodeNoSuffix}},
		{"that layout alone", Config{Suffix: SuffixNone, Layouts: onlyTX24}, []step{{0, code24}}, []string{"|" + code24}},
		{"another text that is known whole", Config{Suffix: SuffixNone, Layouts: shippedLayouts, Whole: func(text string) bool { return text == "MARK" }}, []step{{0, "MARK"}, {time.Second, "MAR"}}, []string{"|MARK", CodeNoSuffix}},
		{"no digits", none, []step{{0, code18[:17] + "x"}}, []string{CodeNoSuffix}},
		{"a frame that lost its ETX", none, []step{{0, "\x02" + code18}}, []string{CodeNoSuffix}},
		{"a damaged byte", none, []step{{0, code18[:4] + "\x00" + code18[5:]}}, []string{CodeDamaged}},
		{"7E1", none, []step{{0, withParity(code18, 0)}}, []string{CodeParity}},
		{"with a prefix", Config{Suffix: SuffixNone, Layouts: shippedLayouts, Prefix: "P:"}, []step{{0, "P:]C1" + code18}, {time.Second, code18}}, []string{"]C1|" + code18, CodeNoSuffix}},
		{"by default silence makes no record", Config{Layouts: shippedLayouts}, []step{{0, code40}}, []string{CodeNoSuffix}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := play(NewDecoder(c.cfg), c.steps...); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecoderPassesOverARecordWhoseBeginningIsLostAlsoWithNoSuffix(t *testing.T) {
	d := NewDecoder(Config{Suffix: SuffixNone, Layouts: shippedLayouts})
	d.Resync()
	if got := play(d, step{0, code18}, step{time.Second, code40}); !slices.Equal(got, []string{"|" + code40}) {
		t.Errorf("got %q", got)
	}
}

// TestDecoderRefusesACodeGluedToItself: chez-betty#298, a continuous scanner without end marks.
func TestDecoderRefusesACodeGluedToItself(t *testing.T) {
	for _, c := range []struct {
		name, prefix, sent string
		want               []string
	}{
		{"twice", "", code40 + code40 + "\r", []string{CodeGlued}},
		{"three times", "", code18 + code18 + code18 + "\r", []string{CodeGlued}},
		{"each with its AIM identifier", "", "]d1" + code40 + "]d1" + code40 + "\r", []string{CodeGlued}},
		{"each with its prefix", "#", "#" + code40 + "#" + code40 + "\r", []string{CodeGlued}},
		{"the next one is heard", "", code40 + code40 + "\r" + code18 + "\r", []string{CodeGlued, "|" + code18}},
		{"half of it is no code", "", "12345678901234567890" + "12345678901234567890" + "\r", []string{"|1234567890123456789012345678901234567890"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(Config{Layouts: shippedLayouts, Prefix: c.prefix})
			if got := play(d, step{0, c.sent}); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestDecoderStripsTheConfiguredPrefixAndMissesIt(t *testing.T) {
	d := NewDecoder(Config{Prefix: "S>"})
	got := play(d, step{0, "S>]d11234\r"}, step{time.Second, "234\r"}, step{time.Second, "\x02S>5678\x03\r\r\nS>\r"})
	if want := []string{"]d1|1234", CodePrefix, "|5678"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDecoderBeginsAnewAtSTX(t *testing.T) {
	for _, c := range []struct {
		name, sent string
		want       []string
	}{
		{"a frame behind one that was cut", "\x0212345\x02678901\x03", []string{CodeNoSuffix, "|678901"}},
		{"a frame behind plain bytes", "12345\x02678901\x03\r", []string{CodeNoSuffix, "|678901"}},
		{"behind stray replies", "\x06\x11\x02678901\x03\r", []string{"|678901"}},
		{"behind an endless record", strings.Repeat("7", 600) + "\x02678901\x03\r", []string{CodeGarbage, "|678901"}},
		{"STX twice", "\x02\x021234\x03", []string{"|1234"}},
	} {
		if got := play(NewDecoder(Config{}), step{0, c.sent}); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDecoderRecordKeepsWhatLooksLikeAnEndInside(t *testing.T) {
	d := NewDecoder(Config{})
	for sent, want := range map[string]string{"1234": "|1234", "]d21\x1d2\r": "]d2|1\x1d2", "]Q11\r2\r\n": "]Q1|1\r2", "\x0299\x03\r": "|99"} {
		e := d.Record([]byte(sent), start)
		if len(e) != 1 || e[0].Fault != nil || e[0].Scan.AIM+"|"+e[0].Scan.Text != want {
			t.Errorf("%q: %+v", sent, e)
		}
	}
	if e := d.Record([]byte(strings.Repeat("7", MaxRecord+1)), start); len(e) != 1 || e[0].Fault == nil || e[0].Fault.Code != CodeGarbage {
		t.Errorf("too long: %+v", e)
	}
	if e := d.Record([]byte("12\x0034"), start); len(e) != 1 || e[0].Fault == nil || e[0].Fault.Code != CodeDamaged {
		t.Errorf("damaged: %+v", e)
	}
	if e := d.Record([]byte("5678"), start); len(e) != 1 || e[0].Scan.Text != "5678" {
		t.Errorf("after a bad one: %+v", e)
	}
}

// TestDecoderReportsSilenceWithoutFurtherBytes: woocommerce-ios#15823, a reject that came
// with the next scan only; barcode-scan-listener#2, the length in the log.
func TestDecoderReportsSilenceWithoutFurtherBytes(t *testing.T) {
	d := NewDecoder(Config{})
	d.Feed([]byte("12345"), start)
	if e := d.Silence(start.Add(79 * ms)); e != nil {
		t.Fatalf("before the idle time: %+v", e)
	}
	e := d.Silence(start.Add(80 * ms))
	if len(e) != 1 || e[0].Fault == nil || e[0].Fault.Code != CodeNoSuffix {
		t.Fatalf("at the idle time: %+v", e)
	}
	if !strings.Contains(e[0].Fault.Error(), "5 bytes") {
		t.Errorf("the length is not named: %v", e[0].Fault)
	}
	if e := d.Silence(start.Add(time.Hour)); e != nil {
		t.Errorf("reported again: %+v", e)
	}
}

func TestDecoderResetDropsPartialRecordButKnowsLastScan(t *testing.T) {
	d := NewDecoder(Config{})
	d.Feed([]byte("1234\r567"), start)
	if n := d.Reset(); n != 3 {
		t.Errorf("dropped %d bytes, want 3", n)
	}
	if e := d.Feed([]byte("89\r"), start); len(e) != 1 || e[0].Scan.Text != "89" {
		t.Errorf("joined across a reconnect: %+v", e)
	}
	d.Feed([]byte("1234\r"), start.Add(time.Second))
	d.Reset()
	if e := d.Feed([]byte("1234\r"), start.Add(2*time.Second)); len(e) != 0 || d.Repeats() != 1 {
		t.Errorf("repeat across a reconnect: %+v, %d repeats", e, d.Repeats())
	}
}

func TestDecoderBelievesNoRepeatWhenTheClockWentBack(t *testing.T) {
	d := NewDecoder(Config{})
	d.Feed([]byte("1234\r"), start)
	if e := d.Feed([]byte("1234\r"), start.Add(-time.Hour)); len(e) != 1 {
		t.Errorf("a scan was lost to a clock set back: %+v", e)
	}
}

func TestDecoderResyncBeginsAtAnEndMark(t *testing.T) {
	d := NewDecoder(Config{})
	d.Resync()
	if got := play(d, step{0, "678\r1234\r"}); !slices.Equal(got, []string{"|1234"}) {
		t.Errorf("got %q", got)
	}
}

func TestFaultsNeverHoldTheCodeAndFitTheClerksScreen(t *testing.T) {
	const secret = "9071825364"
	faults := []*Fault{
		openFault("/dev/x", fmt.Errorf("no")), unstableFault("/dev/x", 3, fmt.Errorf("no")), lostFault("/dev/x", fmt.Errorf("no")),
		newFault(CodeBusy, "t", fmt.Errorf("no")), newFault(CodePermission, "t", fmt.Errorf("no")),
		newFault(CodeGlued, "t", fmt.Errorf("no")), newFault(CodePrefix, "t", fmt.Errorf("no")), newFault(CodeDeaf, "t", fmt.Errorf("no")),
	}
	for _, sent := range []string{secret, "\x00" + secret + "\r", withParity(secret, 0), "\xff\x00\xe6" + secret, strings.Repeat(secret, 60)} {
		d := NewDecoder(Config{})
		events := append(d.Feed([]byte(sent), start), d.Silence(start.Add(time.Second))...)
		if len(events) != 1 || events[0].Fault == nil {
			t.Fatalf("%q: %+v", sent, events)
		}
		faults = append(faults, events[0].Fault)
	}
	for _, f := range faults {
		if all := f.Error() + f.Technician + f.ClerkFR + f.ClerkEN; strings.Contains(all, secret[:4]) {
			t.Errorf("%s holds digits of the code: %s", f.Code, all)
		}
		if f.Technician == "" || f.Err == nil || f.Clerk("fr") != f.ClerkFR || f.Clerk("en") != f.ClerkEN {
			t.Errorf("fault %+v is incomplete", f)
		}
		for _, text := range []string{f.ClerkFR, f.ClerkEN} {
			lines := strings.Split(text, "\n")
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n == 0 || n > 32 {
					t.Errorf("%s: line %q has %d columns", f.Code, l, n)
				}
			}
			if len(lines) > 2 {
				t.Errorf("%s: %d lines", f.Code, len(lines))
			}
		}
	}
}

// FuzzDecoder holds the framing to what it promises of any bytes: the cut between
// reads changes nothing, no scan is long, empty or damaged, and a scan sent again
// by itself is the same scan.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("]d11234567890\r\n"), uint8(3))                        // the plain case
	f.Add([]byte("\x021234\x03\x025678\x03\r"), uint8(1))               // STX frames, glued
	f.Add([]byte("12\x0034\r5678\r"), uint8(4))                         // parity error
	f.Add([]byte(withParity("1234567890\r\n", 0)), uint8(5))            // 7E1
	f.Add([]byte(strings.Repeat("7", 600)+"\r1\r"), uint8(64))          // no end mark
	f.Add([]byte("]Q11234567890\r123456789012345\r"), uint8(200))       // CR as data
	f.Add([]byte("\x02\x02]d2]d2\x02x\x03\x03\r]d1\r\x03\r"), uint8(2)) // framing inside framing
	f.Add([]byte(code40+code40+"\r"+code18), uint8(9))                  // glued to itself, then no end mark
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		cfg := Config{Layouts: shippedLayouts}
		if cut%2 == 1 {
			cfg.Suffix = SuffixNone
		}
		whole, pieces := NewDecoder(cfg), NewDecoder(cfg)
		want := append(whole.Feed(b, start), whole.Silence(start.Add(time.Second))...)
		var got []Event
		for chunk := range slices.Chunk(b, int(cut)+1) {
			got = append(got, pieces.Feed(chunk, start)...)
		}
		got = append(got, pieces.Silence(start.Add(time.Second))...)
		if len(got) != len(want) {
			t.Fatalf("%d events in pieces of %d, %d whole", len(got), int(cut)+1, len(want))
		}
		for i, e := range got {
			if e.Scan != want[i].Scan || (e.Fault == nil) != (want[i].Fault == nil) {
				t.Fatalf("event %d: %+v in pieces, %+v whole", i, e, want[i])
			}
			if e.Fault == nil {
				checkScan(t, e.Scan)
			}
		}
	})
}

func checkScan(t *testing.T, s Scan) {
	t.Helper()
	if s.Text == "" || len(s.AIM)+len(s.Text) > MaxRecord || strings.ContainsAny(s.Text, "\x00\x02\r\n\t") {
		t.Fatalf("scan %+v", s)
	}
	again := NewDecoder(Config{}).Feed([]byte(s.AIM+s.Text+"\r"), start)
	if len(again) != 1 || again[0].Scan.Text != s.Text || again[0].Scan.AIM != s.AIM {
		t.Fatalf("%+v sent again is %+v", s, again)
	}
}
