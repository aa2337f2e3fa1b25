package scanner

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"grattoir/validate/ticket"
)

// What "lost" and "invented" mean here. A scan is lost when all its bytes and its end
// mark came to the program undamaged and it was not handed on. At an unplug the kernel
// throws away what the program has not read yet, on a pty and on USB alike; such a scan
// never came, nobody hears a verdict, and the model counts it as thrown away. A scan is
// invented when a text is handed on that is not, byte for byte, what was sent between
// two end marks, or when a ticket's code is that nobody scanned whole.

// seeded is a source whose seed is printed, and taken from SCANNER_SEED to run again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SCANNER_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("SCANNER_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// traffic is a shop's scans on a line with faults, made for a decoder, and what must
// come of them.
type traffic struct {
	t       *testing.T
	r       *rand.Rand
	d       *Decoder
	at      time.Time
	idle    time.Duration
	tickets uint32
	last    string // the last scan handed on, as AIM|text
	seen    time.Time
	counts  map[string]int
}

// code is a new ticket's code, of either of our layouts.
func (w *traffic) code() string {
	w.tickets++
	layout, secret := shippedLayouts()[0], fmt.Sprintf("%011d%011d", w.r.Int64N(1e11), w.r.Int64N(1e11))
	if w.r.IntN(4) == 0 {
		layout, secret = shippedLayouts()[1], ""
	}
	c, err := ticket.Make(layout, "399", w.tickets/1000, uint16(w.tickets%1000), secret)
	must(w.t, err)
	return c.Digits()
}

// send feeds bytes in pieces, with silences between them that are shorter than idle.
func (w *traffic) send(text string) (got []string) {
	b := []byte(text)
	for len(b) > 0 {
		n := len(b)
		if w.r.IntN(3) > 0 {
			n = 1 + w.r.IntN(n)
		}
		if gap := time.Duration(w.r.IntN(int(w.idle/ms))) * ms; w.r.IntN(2) == 0 && gap > 0 {
			w.at = w.at.Add(gap)
			got = append(got, named(w.d.Silence(w.at))...)
		}
		got = append(got, named(w.d.Feed(b[:n], w.at))...)
		b = b[n:]
	}
	return got
}

// pause is a silence that ends a burst.
func (w *traffic) pause() []string {
	w.at = w.at.Add(w.idle + time.Duration(w.r.IntN(3000))*ms)
	return named(w.d.Silence(w.at))
}

func named(events []Event) (got []string) {
	for _, e := range events {
		if e.Fault != nil {
			got = append(got, e.Fault.Code)
		} else {
			got = append(got, e.Scan.AIM+"|"+e.Scan.Text)
		}
	}
	return got
}

// framed puts the code into one of the frames scanners are set to.
func (w *traffic) framed(text string) string {
	ends := []string{"\r", "\n", "\r\n", "\t", "\r\r"}
	switch end := ends[w.r.IntN(len(ends))]; w.r.IntN(4) {
	case 0:
		return "\x02" + text + "\x03"
	case 1:
		return "\x02" + text + "\x03" + end
	default:
		return text + end
	}
}

func (w *traffic) aim() string { return []string{"", "]d1", "]C1", "]Q3"}[w.r.IntN(4)] }

// step plays one happening and returns its name, what came and what had to come. Only
// those that end in a pause may be followed by anything; the others leave the line in the
// middle of a burst, at the beginning of a record.
func (w *traffic) step() (name string, got, want []string) {
	aim, code := w.aim(), w.code()
	scan := aim + "|" + code
	cut := code[:1+w.r.IntN(len(code)-1)]
	switch w.r.IntN(30) {
	case 0:
		return "cut short", append(w.send(aim+cut), w.pause()...), []string{CodeNoSuffix}
	case 1:
		return "no end mark", append(w.send(aim+code), w.pause()...), []string{CodeNoSuffix}
	case 2:
		next := w.code()
		got = w.send(cut + "\x02" + next + "\x03")
		w.last, w.seen = "|"+next, w.at
		return "cut, then a frame", append(got, w.pause()...), []string{CodeNoSuffix, "|" + next}
	case 3:
		b := []byte(code)
		b[w.r.IntN(len(b))] = 0
		return "damaged byte", append(w.send(aim+string(b)+"\r"), w.pause()...), []string{CodeDamaged}
	case 4:
		return "7E1", append(append(w.pause(), w.send(withParity(code+"\r", 0))...), w.pause()...), []string{CodeParity}
	case 5:
		return "glued to itself", append(w.send(aim+code+aim+code+"\r"), w.pause()...), []string{CodeGlued}
	case 6:
		return "endless", append(w.send(strings.Repeat("7", MaxRecord+1+w.r.IntN(200))), w.pause()...), []string{CodeGarbage}
	case 7:
		return "stray replies", append(append(w.pause(), w.send("\x11\x06\x13")...), w.pause()...), nil
	case 8:
		got = w.send(cut)
		if n := w.d.Reset(); n != len(cut) {
			w.t.Fatalf("%d bytes dropped with the connection, want %d", n, len(cut))
		}
		return "unplugged in the middle", got, nil
	case 9:
		return "unplugged, and thrown away by the kernel", nil, nil // it never came
	case 10:
		half := 8 + w.r.IntN(len(code)-16) // so long that no two halves are alike
		got = w.send(code[:half] + "\r" + code[half:] + "\r")
		w.last, w.seen = "|"+code[half:], w.at
		return "CR inside", append(got, w.pause()...), []string{"|" + code[:half], "|" + code[half:]}
	case 11:
		return "wrong speed", append(append(w.pause(), w.send(w.noise())...), w.pause()...), []string{CodeGarbage}
	case 12, 13, 14, 15: // once more, by a scanner in continuous mode or another person
		if w.last == "" {
			return "", nil, nil
		}
		aim, code, _ = strings.Cut(w.last, "|")
		w.at = w.at.Add(time.Duration(w.r.IntN(2500)) * ms)
		if since := w.at.Sub(w.seen); since > 1300*ms && since < 1500*ms {
			w.at = w.at.Add(200 * ms) // a scan's time is its first end mark's, which may be a little before the model's
		}
		if name = "repeat"; w.at.Sub(w.seen) >= 1500*ms {
			name, want = "again later", []string{w.last}
		}
		got = named(w.d.Silence(w.at))
		got = append(got, named(w.d.Feed([]byte(aim+code+"\r"), w.at))...)
		w.seen = w.at
		return name, got, want
	case 16:
		w.last = "]d2|" + code + "\x1d10AB"
		got = w.send("]d2" + code + "\x1d10AB\r")
		w.seen = w.at
		return "GS inside", got, []string{w.last}
	}
	got = w.send(w.framed(aim + code))
	w.last, w.seen = scan, w.at
	if w.r.IntN(2) == 0 {
		got = append(got, w.pause()...)
	}
	return "good", got, []string{scan}
}

// noise is what a line at the wrong speed gives: zeros, high bits, no text.
func (w *traffic) noise() string {
	b := []byte{0x00, 0xFF}
	for range 4 + w.r.IntN(60) {
		c := byte(w.r.IntN(256))
		if bytes.IndexByte([]byte("\r\n\t\x02\x03"), c) < 0 {
			b = append(b, c)
		}
	}
	return string(b)
}

// TestNoScanIsLostOrInventedInAHundredThousand plays 100 000 scripted scans on a line
// with faults, glued and split in every way, against a model; a million and more with
// GRATTOIR_SOAK=1.
func TestNoScanIsLostOrInventedInAHundredThousand(t *testing.T) {
	w := &traffic{t: t, r: seeded(t), d: NewDecoder(Config{Layouts: shippedLayouts}), at: start, idle: 80 * ms, counts: map[string]int{}}
	n := 100_000
	if os.Getenv("GRATTOIR_SOAK") == "1" {
		n = 2_000_000
	}
	for i := range n {
		name, got, want := w.step()
		w.counts[name]++
		if !slices.Equal(got, want) {
			t.Fatalf("happening %d, %s: got %q, want %q", i, name, got, want)
		}
	}
	for _, name := range []string{"good", "cut short", "no end mark", "cut, then a frame", "damaged byte", "7E1", "glued to itself", "endless", "stray replies",
		"unplugged in the middle", "unplugged, and thrown away by the kernel", "CR inside", "wrong speed", "repeat", "again later", "GS inside"} {
		if w.counts[name] < 1000 {
			t.Errorf("%s came %d times only", name, w.counts[name])
		}
	}
	t.Logf("%v", w.counts)
}

// TestNoTicketIsInventedByAnyNoise lets noise of every byte through to the layouts'
// length and check digits, glued to true scans: what the counter would take for a ticket
// was scanned whole.
func TestNoTicketIsInventedByAnyNoise(t *testing.T) {
	for _, suffix := range []string{SuffixAny, SuffixNone} {
		r := seeded(t)
		w := &traffic{t: t, r: r, d: NewDecoder(Config{Layouts: shippedLayouts, Suffix: suffix}), at: start, idle: 80 * ms}
		sent := map[string]bool{}
		for range damagedCodes {
			code := w.code()
			line := []byte(w.framed(code))
			for range r.IntN(4) { // damage: bytes changed, lost, doubled
				i := r.IntN(len(line))
				switch r.IntN(3) {
				case 0:
					line[i] = byte(r.IntN(256))
				case 1:
					line = append(line[:i], line[min(len(line), i+1+r.IntN(20)):]...)
				case 2:
					line = append(line[:i], append(bytes.Clone(line[i:]), line[i:]...)...)
				}
				if len(line) == 0 {
					line = []byte{'7'}
				}
			}
			sent[code] = true
			got := w.send(string(line))
			if r.IntN(2) == 0 {
				got = append(got, w.pause()...)
			}
			for _, g := range got {
				_, text, isScan := strings.Cut(g, "|")
				if c, err := ticket.Parse(text, 0, shippedLayouts()[:2]); isScan && err == nil && !sent[c.Digits()] {
					// One in 97 codes with wrong digits has the right check by chance; its secret opens nothing.
					w.count("chance")
				}
			}
		}
		if n := w.counts["chance"]; n > damagedCodes*3/97/2 {
			t.Errorf("suffix %s: %d codes of %d passed with wrong digits: more than chance", suffix, n, damagedCodes)
		}
		t.Logf("suffix %s: %d of %d damaged codes had right check digits by chance", suffix, w.counts["chance"], damagedCodes)
	}
}

const damagedCodes = 5000

func (w *traffic) count(name string) {
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[name]++
}

// TestNoScanWithNoEndMarkIsLostOrInvented is the same promise for a scanner that sends
// none: every whole code alone in its burst is handed on, and nothing else.
func TestNoScanWithNoEndMarkIsLostOrInvented(t *testing.T) {
	w := &traffic{t: t, r: seeded(t), d: NewDecoder(Config{Layouts: shippedLayouts, Suffix: SuffixNone}), at: start, idle: 200 * ms}
	for i := range 20_000 {
		aim, code := w.aim(), w.code()
		sent, want := aim+code, []string{aim + "|" + code}
		switch n := 1 + w.r.IntN(len(code)-1); w.r.IntN(5) {
		case 0:
			sent, want = code[:n], []string{CodeNoSuffix}
			if n == 18 && len(code) == 40 {
				want = []string{"|" + code[:18]} // its length, not its check digits: for the counter to refuse
			}
		case 1:
			sent, want = code+w.code(), []string{CodeNoSuffix}
		case 2:
			sent, want = code+"\r", []string{"|" + code}
		}
		if got := append(w.send(sent), w.pause()...); !slices.Equal(got, want) {
			t.Fatalf("happening %d: %d bytes gave %q, want %q", i, len(sent), got, want)
		}
	}
}

// TestNoScanIsLostOrInventedOnARealLine plays scripted scans with faults through a pty
// and the whole reader: 300, or 20 000 with GRATTOIR_SOAK=1.
func TestNoScanIsLostOrInventedOnARealLine(t *testing.T) {
	scans, unplugs := 300, 3
	if os.Getenv("GRATTOIR_SOAK") == "1" {
		scans, unplugs = 20_000, 100
	}
	dev, link := plugged(t)
	r := listen(t, Config{Path: link, Layouts: shippedLayouts})
	r.wantState(Connected, "")
	w := &traffic{t: t, r: seeded(t)}
	thrown := 0
	for i := 0; i < scans; i++ {
		var burst []string
		var line strings.Builder
		for range 1 + w.r.IntN(5) {
			code := w.code()
			burst = append(burst, code)
			line.WriteString(w.framed(code))
		}
		i += len(burst) - 1
		whole := line.String()
		for len(whole) > 0 {
			n := 1 + w.r.IntN(len(whole))
			must(t, dev.Send([]byte(whole[:n])))
			whole = whole[n:]
		}
		if every := max(1, scans/(unplugs+1)); i/every != (i-len(burst))/every && i < scans-5 {
			must(t, dev.Send([]byte(w.code()[:9]))) // a record under way is never joined with the next connection
			must(t, dev.Unplug())
			thrown += len(burst) - r.prefixOf(burst)
			must(t, dev.Replug())
			r.until(Connected, "")
			continue
		}
		for _, code := range burst {
			r.wantScan(code)
		}
		switch w.r.IntN(20) {
		case 0:
			must(t, dev.Send([]byte(w.code()[:12])))
			r.until(Faulty, CodeNoSuffix)
		case 1:
			must(t, dev.Send([]byte("12\x0034\r")))
			r.until(Faulty, CodeDamaged)
		case 2:
			must(t, dev.Send([]byte(withParity(w.code()+"\r", 0))))
			r.until(Faulty, CodeParity)
		case 3:
			must(t, dev.Scan(burst[len(burst)-1])) // at once, so a repeat
		}
	}
	r.stop()
	if n := len(r.scans); n > 0 {
		t.Errorf("%d scans were invented", n)
	}
	t.Logf("%d scans, %d thrown away by the kernel at %d unplugs", scans, thrown, unplugs)
}

// prefixOf takes scans until the loss of the connection is reported and checks that they
// are the first of a burst, in order. It returns how many they were.
func (r *running) prefixOf(burst []string) int {
	r.t.Helper()
	r.lost()
	n := 0
	for {
		select {
		case s := <-r.scans:
			if n >= len(burst) || s.Text != burst[n] {
				r.t.Fatalf("scan %d of a burst that was cut by an unplug is another", n)
			}
			n++
		default:
			return n
		}
	}
}

// lost waits until the loss of the port is reported. Scans come from the same goroutine,
// so after it all that were read are here.
func (r *running) lost() {
	r.t.Helper()
	for {
		select {
		case s := <-r.states:
			if s.Fault != nil && (s.Fault.Code == CodeMissing || s.Fault.Code == CodeUnstable) {
				return
			}
		case <-time.After(patience):
			r.t.Fatal("the loss of the port was not reported")
		}
	}
}

// until waits for a state, passing over others.
func (r *running) until(status Status, code string) {
	r.t.Helper()
	for {
		select {
		case s := <-r.states:
			if s.Status == status && (s.Fault == nil && code == "" || s.Fault != nil && s.Fault.Code == code) {
				return
			}
		case <-time.After(patience):
			r.t.Fatalf("no state %s %s", status, code)
		}
	}
}
