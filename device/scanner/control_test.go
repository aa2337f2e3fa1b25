package scanner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// sums up what a codec made of bytes: scans as "AIM|text", faults as codes, what it
// sends in hexadecimal behind ">", answers behind "=".
func told(out []output) []string {
	var got []string
	for _, o := range out {
		for _, e := range o.events {
			if e.Fault != nil {
				got = append(got, e.Fault.Code)
			} else {
				got = append(got, e.Scan.AIM+"|"+e.Scan.Text)
			}
		}
		if len(o.write) > 0 {
			got = append(got, fmt.Sprintf("> % X", o.write))
		}
		if o.answer != nil {
			a := "=" + o.answer.text
			for _, err := range []error{ErrRefused, ErrNoAnswer} {
				if errors.Is(o.answer.err, err) {
					a = "= " + err.Error()
				}
			}
			got = append(got, a)
		}
	}
	return got
}

// wire is a codec with a clock that goes on.
type wire struct {
	t  *testing.T
	c  codec
	at time.Time
}

func newWire(t *testing.T, control string) *wire {
	t.Helper()
	c, err := newCodec(control, NewDecoder(Config{Layouts: shippedLayouts}))
	must(t, err)
	w := &wire{t: t, c: c, at: start}
	c.opened(start, 0)
	return w
}

// feed sends pieces with no silence between them.
func (w *wire) feed(pieces ...string) []string {
	var got []string
	for _, p := range pieces {
		w.at = w.at.Add(ms)
		got = append(got, told(w.c.feed([]byte(p), w.at))...)
		got = append(got, told(w.c.tick(w.at, false))...)
	}
	return got
}

// wait is silence, seen by a read every 80 ms.
func (w *wire) wait(d time.Duration) []string {
	var got []string
	for end := w.at.Add(d); w.at.Before(end); {
		w.at = w.at.Add(80 * ms)
		got = append(got, told(w.c.tick(w.at, true))...)
	}
	return got
}

func (w *wire) command(c Command, argument string) string {
	w.t.Helper()
	b, _, err := w.c.frame(c, argument, w.at)
	must(w.t, err)
	return fmt.Sprintf("% X", b)
}

func (w *wire) want(got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("got %q, want %q", got, want)
	}
}

// TestCommandsAreTheManualsBytes: research on the makers' manuals, section 1.2.
func TestCommandsAreTheManualsBytes(t *testing.T) {
	for _, c := range []struct {
		control string
		command Command
		want    string
	}{
		{ControlDatalogic, Enable, "45"}, {ControlDatalogic, Disable, "44"}, {ControlDatalogic, BeepGood, "42"}, {ControlDatalogic, BeepBad, "01"},
		{ControlHoneywell, Trigger, "16 54 0D"}, {ControlHoneywell, Release, "16 55 0D"},
		{ControlGM65, Trigger, "7E 00 08 01 00 02 01 02 DA"}, // the check of this frame in the module's own manual
		{ControlSSI, Enable, "04 E9 04 00 FF 0F"}, {ControlSSI, Disable, "04 EA 04 00 FF 0E"},
		{ControlSSI, Trigger, "04 E4 04 00 FF 14"}, {ControlSSI, Release, "04 E5 04 00 FF 13"}, {ControlSSI, BeepGood, "05 E6 04 00 00 FF 11"}, {ControlSSI, BeepBad, "05 E6 04 00 06 FF 0B"},
	} {
		if got := newWire(t, c.control).command(c.command, ""); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.control, c.command, got, c.want)
		}
	}
	w := newWire(t, ControlHoneywell)
	if got := w.command(query, "CBRENA"); got != "16 4D 0D 43 42 52 45 4E 41 3F 2E" {
		t.Errorf("query: %s", got)
	}
	for _, bad := range []string{"", "CBR", "CBRENA1.", "cbrena", "CBREN."} {
		if _, _, err := w.c.frame(query, bad, start); err == nil {
			t.Errorf("query %q was framed", bad)
		}
	}
}

func TestSupportsTellsWhatCanBeFramed(t *testing.T) {
	for _, control := range []string{ControlNone, ControlHoneywell, ControlDatalogic, ControlGM65, ControlSSI} {
		for _, c := range []Command{Enable, Disable, BeepGood, BeepBad, Trigger, Release, query} {
			_, _, err := newWire(t, control).c.frame(c, "CBRENA", start)
			if got := !errors.Is(err, ErrUnsupported); got != Supports(control, c) {
				t.Errorf("%s %s: framed %v, Supports %v", control, c, got, Supports(control, c))
			}
		}
	}
}

func TestCRCIsXModem(t *testing.T) {
	for _, c := range []struct {
		bytes string
		want  uint16
	}{
		{"\x09\x01\x00\x00\x00", 0xDEC8}, {"\x00\x01\x00", 0x3331}, // a save command and its answer, as public drivers hold them
		{"123456789", 0x31C3}, // the catalogue's check value
	} {
		if got := crcXModem([]byte(c.bytes)); got != c.want {
			t.Errorf("% X: %04X, want %04X", c.bytes, got, c.want)
		}
	}
}

const gmReply = "\x02\x00\x00\x01\x00\x33\x31"

func TestGM65AnswersAreTakenOutOfTheStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"before the scan, in one read", []string{gmReply + code18 + "\r"}, []string{"=", "|" + code18}},
		{"split at every byte", strings.Split(gmReply+code18+"\r", ""), []string{"=", "|" + code18}},
		{"in three pieces", []string{gmReply[:2], gmReply[2:6], gmReply[6:] + "1234\r"}, []string{"=", "|1234"}},
		{"repeated", []string{gmReply + gmReply, gmReply + code18 + "\r"}, []string{"=", "|" + code18}},
		{"after the scan", []string{"1234\r" + gmReply}, []string{"|1234", "="}},
		{"inside the scan", []string{"12" + gmReply + "34\r"}, []string{"=", "|1234"}},
		{"an STX frame is no answer", []string{"\x021234\x03"}, []string{"|1234"}},
		{"an answer's beginning and then an STX frame", []string{"\x02\x021234\x03"}, []string{"|1234"}},
		{"a damaged answer is no digits of a ticket", []string{"\x02\x00\x00\x01\x00\x33\x30" + code18 + "\r"}, []string{CodeDamaged}},
		{"an answer of two bytes", []string{"\x02\x00\x00\x02\x05\x06" + string(binary.BigEndian.AppendUint16(nil, crcXModem([]byte("\x00\x02\x05\x06")))) + "1234\r"}, []string{"=", "|1234"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t, ControlGM65)
			w.command(Trigger, "")
			w.want(w.feed(c.pieces...), c.want...)
		})
	}
}

func TestGM65SilenceIsNamedAndALateAnswerIsStillNoScan(t *testing.T) {
	w := newWire(t, ControlGM65)
	w.command(Trigger, "")
	w.want(w.wait(1900 * ms))
	w.want(w.wait(200*ms), "= "+ErrNoAnswer.Error())
	w.want(w.feed(gmReply+"1234\r"), "|1234")
	w.want(w.feed("\x02\x00"))
	w.want(w.wait(300*ms), CodeDamaged)
	w.want(w.feed("5678\r"), "|5678")
	w.feed("\x02\x00\x00")
	if n := w.c.closed(); n != 3 {
		t.Errorf("%d bytes dropped", n)
	}
	w.want(w.feed("9999\r"), "|9999")
}

func TestHoneywellAnswersAreTakenOutOfTheStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		pieces []string
		want   []string
	}{
		{"a setting", []string{"CBRENA1\x06."}, []string{"=1"}},
		{"split, a scan behind it", []string{"CBR", "ENA1", "\x06", ".1234\r"}, []string{"=1", "|1234"}},
		{"a scan before it", []string{"1234\rCBRENA0\x06."}, []string{"|1234", "=0"}},
		{"lower case, kept until power-off", []string{"cbrena1\x06!"}, []string{"=1"}},
		{"a text with full stops and lines", []string{"CBRENAv1.2\r\nb\x06."}, []string{"=v1.2\r\nb"}},
		{"unknown setting", []string{"CBRENA\x05."}, []string{"= " + ErrRefused.Error()}},
		{"bad value", []string{"CBRENA?\x15."}, []string{"= " + ErrRefused.Error()}},
		{"the letters inside a scan", []string{"12CBRENA1\x06.\r"}, []string{"|12CBRENA1\x06."}},
		{"a scan that begins alike", []string{"CBX\r"}, []string{"|CBX"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWire(t, ControlHoneywell)
			w.command(query, "CBRENA")
			w.want(w.feed(c.pieces...), c.want...)
		})
	}
}

func TestHoneywellLateAnswerIsNoScan(t *testing.T) {
	w := newWire(t, ControlHoneywell)
	w.command(query, "CBRENA")
	w.want(w.wait(2200*ms), "= "+ErrNoAnswer.Error())
	w.want(w.feed("CBRENA1\x06."+code18+"\r"), "|"+code18)
	w.command(query, "CBRENA")
	w.want(w.feed("CBRENA1")) // and never ends
	w.want(w.wait(400*ms), CodeNoSuffix)
	w.want(w.feed("5678\r"), "|5678")
	w.wait(11 * time.Second)
	w.want(w.feed("CBRENA9\r"), "|CBRENA9") // nobody asked so long ago
}

// fromScanner frames a packet as the scanner does.
func fromScanner(opcode, status byte, data string) string {
	b := ssiPacket(opcode, status, []byte(data)...)
	sum := ssiSum(b[:len(b)-2]) - ssiHost
	b[2] = 0
	b[len(b)-2], b[len(b)-1] = byte(-sum>>8), byte(-sum)
	return string(b)
}

const (
	ssiAcks  = "> 04 D0 04 00 FF 28" // the manual's worked examples
	ssiNaks  = "> 05 D1 04 00 01 FF 25"
	code128  = "\x03" // kinds of barcode in a packet of a scan
	nothings = "\x1B"
)

func TestSSIAcknowledgesAfterTheScan(t *testing.T) {
	w := newWire(t, ControlSSI)
	w.want(w.feed(fromScanner(ssiData, 0, code128+"]C1"+code18+"\r\n")), "]C1|"+code18, ssiAcks)
	w.want(w.feed(strings.Split(fromScanner(ssiData, 0x20, nothings+code40), "")...), "|"+code40, ssiAcks)
}

func TestSSIRetransmissionIsAcceptedOnce(t *testing.T) {
	w := newWire(t, ControlSSI)
	w.want(w.feed(fromScanner(ssiData, 0, code128+"1234")), "|1234", ssiAcks)
	w.want(w.wait(2 * time.Second)) // the ACK is lost
	w.want(w.feed(fromScanner(ssiData, ssiRetransmit, code128+"1234")), ssiAcks)
	w.wait(9 * time.Second)
	w.want(w.feed(fromScanner(ssiData, ssiRetransmit, code128+"1234")), ssiAcks)
	w.want(w.feed(fromScanner(ssiData, ssiRetransmit, code128+"5678")), "|5678", ssiAcks) // the first one never arrived
	w.wait(2 * time.Second)
	w.want(w.feed(fromScanner(ssiData, 0, code128+"5678")), "|5678", ssiAcks) // scanned again
}

func TestSSIDamagedPacketIsAskedForAgain(t *testing.T) {
	good := fromScanner(ssiData, 0, code128+"1234")
	for i := range len(good) {
		b := []byte(good)
		b[i] ^= 0x04
		w := newWire(t, ControlSSI)
		got := append(w.feed(string(b)), w.wait(400*ms)...)
		if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "|") }) || slices.Contains(got, ssiAcks) {
			t.Fatalf("byte %d: a damaged packet was accepted: %q", i, got)
		}
		got = w.feed(fromScanner(ssiData, ssiRetransmit, code128+"1234"))
		if !slices.Contains(got, "|1234") {
			t.Errorf("byte %d: the retransmission was lost: %q", i, got)
		}
	}
	w := newWire(t, ControlSSI)
	bad := good[:len(good)-1] + "\x00"
	for range 2 {
		w.want(append(w.feed(bad), w.wait(80*ms)...), ssiNaks)
	}
	w.want(append(w.feed(bad), w.wait(80*ms)...), ssiNaks, CodeDamaged)
	w.want(append(w.feed(good[:5]), w.wait(300*ms)...), ssiNaks) // stopped in the middle
	w.want(w.wait(9 * time.Second))
	w.want(w.wait(2*time.Second), CodeDamaged) // and was never sent again
	w.want(w.feed(good), "|1234", ssiAcks)
}

func TestSSIMessageOfSeveralPackets(t *testing.T) {
	w := newWire(t, ControlSSI)
	part := strings.Repeat("7", 200)
	w.want(w.feed(fromScanner(ssiData, ssiContinued, nothings+part)), ssiAcks)
	w.want(w.feed(fromScanner(ssiData, ssiContinued|ssiRetransmit, nothings+part)), ssiAcks) // once
	w.want(w.feed(fromScanner(ssiData, 0, nothings+"89")), "|"+part+"89", ssiAcks)

	for range 4 { // longer than any record: passed over to its end
		w.want(w.feed(fromScanner(ssiData, ssiContinued, nothings+part)), ssiAcks)
	}
	w.want(w.feed(fromScanner(ssiData, 0, nothings+"1234")), CodeGarbage, ssiAcks)
	w.want(w.feed(fromScanner(ssiData, 0, code128+"1234")), "|1234", ssiAcks)

	w.want(w.feed(fromScanner(ssiData, ssiContinued, nothings+"5678")), ssiAcks)
	w.want(w.wait(11*time.Second), CodeDamaged)
	w.want(w.feed(fromScanner(ssiData, 0, code128+"9999")), "|9999", ssiAcks)
}

func TestSSIPlainScansAreRead(t *testing.T) {
	w := newWire(t, ControlSSI)
	w.want(w.feed(code40+"\r\n"+"]C1"+code18+"\r"), "|"+code40, "]C1|"+code18)
	w.want(w.feed("12\r1", "3", "\r"), "|12", "|13")
	w.want(w.feed(strings.Split("\x021234\x03", "")...), "|1234")
	w.want(w.feed("5678\r"+fromScanner(ssiData, 0, code128+"1234")), "|5678", "|1234", ssiAcks)
	w.want(append(w.feed("99999\r"), w.wait(300*ms)...), ssiNaks) // from a scanner that sends packets
	w.c.closed()
	w.want(append(w.feed("99"), w.wait(400*ms)...), CodeNoSuffix)
	w.want(append(w.feed(withParity("1234567890\r", 0)), w.wait(300*ms)...), CodeParity)
	w.want(w.feed(fromScanner(ssiData, 0, code128+"7777")), "|7777", ssiAcks)
}

func TestSSICommandIsTriedThreeTimes(t *testing.T) {
	again := "> 00 04 E9 04 01 FF 0E" // woken up, marked as a retransmission
	w := newWire(t, ControlSSI)
	w.command(Enable, "")
	w.want(w.wait(2100*ms), again)
	w.want(w.wait(2100*ms), again)
	w.want(w.wait(2100*ms), "= "+ErrNoAnswer.Error())
	w.want(w.wait(10 * time.Second))

	w.command(Enable, "")
	w.want(w.feed(fromScanner(ssiAck, 0, "")), "=")
	w.want(w.feed(fromScanner(ssiAck, 0x80, ""))) // an answer to nothing is never answered
	w.want(w.feed(fromScanner(ssiNak, 0, "\x01")))
	w.command(BeepGood, "")
	w.want(w.feed(fromScanner(ssiNak, 0, "\x01")), "> 00 05 E6 04 01 00 FF 10")
	w.want(w.feed(fromScanner(ssiData, 0, code128+"1234")), "|1234", ssiAcks) // a scan may come first
	w.want(w.feed(fromScanner(ssiAck, 0, "")), "=")
	w.command(BeepGood, "")
	w.want(w.feed(fromScanner(ssiNak, 0, "\x06")), "= "+ErrRefused.Error())
	w.want(w.feed(fromScanner(ssiEvent, 0, "\x0A")), ssiAcks)
	w.want(w.feed(fromScanner(0x99, 0, "")), "> 05 D1 04 00 02 FF 24") // what nobody knows
}

func TestSSIRetransmissionOfAScanFromBeforeTheConnectionIsStale(t *testing.T) {
	w := newWire(t, ControlSSI)
	w.c.opened(w.at, 12)
	w.wait(2 * time.Second)
	w.want(w.feed(fromScanner(ssiData, ssiRetransmit, code128+"1234")), ssiAcks)
	w.want(w.feed(fromScanner(ssiData, ssiRetransmit, code128+"5678")), "|5678", ssiAcks)
}

// TestSSIEveryScanArrivesOnce runs the scanner's half of the protocol over a line that
// damages and swallows packets both ways: whatever happens, a scan is handed on once, or
// the scanner has given it up and beeped.
func TestSSIEveryScanArrivesOnce(t *testing.T) {
	r := seeded(t)
	w := newWire(t, ControlSSI)
	for i := range 3000 {
		want := fmt.Sprintf("|%08d", i)
		got, acked := 0, false
		for try := 0; try < 3 && !acked; try++ {
			status := byte(0)
			if try > 0 {
				status = ssiRetransmit
			}
			b := []byte(fromScanner(ssiData, status, code128+want[1:]))
			switch r.IntN(6) {
			case 0: // swallowed
				b = nil
			case 1:
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			case 2:
				b = b[:1+r.IntN(len(b)-1)]
			}
			reply := w.feed(string(b))
			reply = append(reply, w.wait(500*ms)...)
			for _, s := range reply {
				switch {
				case s == want:
					got++
				case strings.HasPrefix(s, "|"):
					t.Fatalf("scan %d: invented %q", i, s)
				case s == ssiAcks && r.IntN(4) > 0: // an ACK may be lost
					acked = true
				}
			}
			if !acked {
				w.wait(2 * time.Second)
			}
		}
		if got > 1 || acked && got != 1 {
			t.Fatalf("scan %d: handed on %d times, acknowledged %v", i, got, acked)
		}
		w.wait(11 * time.Second)
	}
}

// FuzzControls holds each codec to what the decoder promises: the cut between reads
// changes nothing, no scan is damaged or too long, and nothing is acknowledged but
// packets with the right sum.
func FuzzControls(f *testing.F) {
	f.Add([]byte(gmReply+"1234\r"), uint8(2))
	f.Add([]byte("CBRENA1\x06.1234\r"), uint8(3))
	f.Add([]byte(fromScanner(ssiData, 0, code128+"1234")+"1234\r"), uint8(5))
	f.Add([]byte(fromScanner(ssiData, ssiContinued, code128+"12")+fromScanner(ssiData, 0, code128+"34")), uint8(1))
	f.Add([]byte("\x02\x00\x00\x02\x00\xFF\x04\xF3\x00\x00\xFF"), uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, cut uint8) {
		for _, control := range []string{ControlHoneywell, ControlGM65, ControlSSI} {
			whole, pieces := newWire(t, control), newWire(t, control)
			for _, w := range []*wire{whole, pieces} {
				if control == ControlHoneywell {
					w.command(query, "CBRENA")
				} else {
					w.command(Trigger, "")
				}
			}
			want := told(whole.c.feed(b, start))
			var got []string
			for chunk := range slices.Chunk(b, int(cut)+1) {
				got = append(got, told(pieces.c.feed(chunk, start))...)
			}
			if control != ControlSSI || !strings.Contains(strings.Join(want, ""), CodeDamaged) { // how long a bad packet is depends on the cut
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %q in pieces of %d, %q whole", control, got, int(cut)+1, want)
				}
			}
			for _, w := range []*wire{whole, pieces} {
				after := w.wait(30 * time.Second)
				if bytes.Contains([]byte(strings.Join(after, "")), []byte("\x00")) {
					t.Fatalf("%s: damaged scan in %q", control, after)
				}
				scan := "31415\r"
				if control == ControlSSI {
					scan = fromScanner(ssiData, 0, code128+"31415")
				}
				if got := w.feed(scan); len(got) == 0 || got[0] != "|31415" {
					t.Fatalf("%s: a scan after silence gave %q", control, got)
				}
			}
		}
	})
}
