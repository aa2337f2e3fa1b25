package printer

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// parse feeds pieces and returns what came out, with the bytes copied.
func parse(pieces ...[]byte) (out []Answer, p *Parser) {
	p = &Parser{}
	for _, piece := range pieces {
		p.Feed(piece, func(a Answer) { out = append(out, Answer{a.Kind, bytes.Clone(a.Bytes)}) })
	}
	return out, p
}

func TestParserTellsAnswersApart(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []AnswerKind
	}{
		{"four statuses", "\x16\x12\x12\x12", []AnswerKind{RealTime, RealTime, RealTime, RealTime}},
		{"offline, paper end", "\x1e\x32\x12\x72", []AnswerKind{RealTime, RealTime, RealTime, RealTime}},
		{"paper sensor", "\x00\x0c", []AnswerKind{Sensor, Sensor}},
		{"automatic status", "\x18\x00\x0c\x0f", []AnswerKind{Automatic}},
		{"XOFF inside automatic status", "\x18\x00\x13\x0c\x0f\x11", []AnswerKind{XOff, Automatic, XOn}},
		{"process id", "\x37\x22ABCD\x00", []AnswerKind{ProcessID}},
		{"XON inside process id", "\x37\x22A\x11BCD\x00", []AnswerKind{XOn, ProcessID}},
		{"buffer cleared", "\x37\x25\x00", []AnswerKind{Cleared}},
		{"process id too short", "\x37\x22ABC\x00", []AnswerKind{Response}},
		{"maker's name", "\x5fEPSON\x00", []AnswerKind{Text}},
		{"automatic status with one byte lost", "\x18\x00\x0c\x16", []AnswerKind{Noise, RealTime}},
		{"frame that never ends", "\x37\x22AB\x12\x00", []AnswerKind{Noise, RealTime, Sensor}},
		{"line noise", "\xff\x80\x12", []AnswerKind{Noise, Noise, RealTime}},
	} {
		t.Run(c.name, func(t *testing.T) {
			answers, _ := parse([]byte(c.in))
			var got []AnswerKind
			for _, a := range answers {
				got = append(got, a.Kind)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestParserReadsTheProcessID(t *testing.T) {
	answers, _ := parse([]byte{0x37, 0x22, 'A'}, []byte{'B', 'C', 'D', 0})
	if len(answers) != 1 || answers[0].ID() != [4]byte{'A', 'B', 'C', 'D'} {
		t.Errorf("got %v", answers)
	}
}

// FuzzParser holds for any bytes: none is lost, it does not matter how they were
// cut into reads, and what was understood means the same when sent again.
func FuzzParser(f *testing.F) {
	f.Add([]byte("\x16\x12\x12\x12"), 2)              // an idle printer
	f.Add([]byte("\x18\x00\x13\x0c\x0f\x11"), 3)      // flow control inside a frame
	f.Add([]byte("\x37\x22ABCD\x00\x5fEPSON\x00"), 5) // answer split between two reads
	f.Add([]byte("\x37\x22AB\x12\x00\xff"), 4)        // printer switched off inside an answer
	f.Add(bytes.Repeat([]byte{0x5f}, 300), 150)       // wrong speed
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		whole, p := parse(in)
		cut = max(0, min(cut, len(in)))
		split, _ := parse(in[:cut], in[cut:])
		if fmt.Sprint(whole) != fmt.Sprint(split) {
			t.Fatalf("cut at %d: %v, whole: %v", cut, split, whole)
		}
		var bytesOut int
		var again []byte
		var rest []Answer // all but flow control, which may stand inside the others
		for _, a := range whole {
			bytesOut += len(a.Bytes)
			if a.Kind != XOn && a.Kind != XOff {
				rest = append(rest, a)
				again = append(again, a.Bytes...)
			}
		}
		if len(p.partial) >= maxFrame || bytesOut+len(p.partial) != len(in) {
			t.Fatalf("%d bytes in, %d out, %d kept", len(in), bytesOut, len(p.partial))
		}
		twice, _ := parse(append(again, p.partial...))
		if fmt.Sprint(twice) != fmt.Sprint(rest) {
			t.Fatalf("sent again: %v, first: %v", twice, rest)
		}
	})
}

// TestParserIsBackAfterAnyNoise: whatever stood before, at most one answer is lost to it.
func TestParserIsBackAfterAnyNoise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		noise := rapid.SliceOf(rapid.SampledFrom([]byte{0, 0x11, 0x12, 0x13, 0x14, 0x18, 0x22, 0x25, 0x37, 0x41, 0x5f, 0x7e, 0xff})).Draw(t, "noise")
		frame := rapid.SampledFrom([]string{"\x37\x22ABCD\x00", "\x37\x25\x00", "\x18\x00\x0c\x0f", "\x12"}).Draw(t, "frame")
		kind := map[string]AnswerKind{"\x37\x22ABCD\x00": ProcessID, "\x37\x25\x00": Cleared, "\x18\x00\x0c\x0f": Automatic, "\x12": RealTime}[frame]
		answers, p := parse(noise, []byte(frame), []byte(frame))
		last := answers[len(answers)-1]
		if last.Kind != kind || string(last.Bytes) != frame || len(p.partial) > 0 {
			t.Fatalf("after % x the second % x is %v", noise, frame, answers)
		}
	})
}

func TestSensorsNameTheWorstFault(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers [5]byte // to DLE EOT 1 to 4
		asb     string
		want    string
	}{
		{"ready", [5]byte{1: 0x16, 2: 0x12, 3: 0x12, 4: 0x12}, "\x14\x00\x00\x0f", ""},
		{"near end", [5]byte{1: 0x16, 2: 0x12, 3: 0x12, 4: 0x1e}, "\x14\x00\x03\x0f", "P10"},
		{"paper end", [5]byte{1: 0x1e, 2: 0x32, 3: 0x12, 4: 0x7e}, "\x1c\x00\x0f\x0f", "P2"},
		{"cover open, sensor in the air", [5]byte{1: 0x1e, 2: 0x36, 3: 0x12, 4: 0x7e}, "\x3c\x00\x0f\x0f", "P3"},
		{"cutter", [5]byte{1: 0x1e, 2: 0x52, 3: 0x1a, 4: 0x12}, "\x1c\x08\x00\x0f", "P4"},
		{"broken", [5]byte{1: 0x1e, 2: 0x52, 3: 0x32, 4: 0x12}, "\x1c\x20\x00\x0f", "P5"},
		{"hot", [5]byte{1: 0x1e, 2: 0x52, 3: 0x52, 4: 0x12}, "\x1c\x40\x00\x0f", "P6"},
		{"feed button", [5]byte{1: 0x5e, 2: 0x1a, 3: 0x12, 4: 0x12}, "\x5c\x00\x00\x0f", "P7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked, told sensors
			for n := byte(1); n <= 4; n++ {
				asked.realTime(n, c.answers[n])
			}
			told.automatic([]byte(c.asb))
			for source, s := range map[string]sensors{"asked": asked, "automatic": told} {
				got := ""
				if f := s.fault(); f != nil {
					got = f.Code
				}
				if got != c.want {
					t.Errorf("%s: got %q, want %q", source, got, c.want)
				}
			}
		})
	}
}
