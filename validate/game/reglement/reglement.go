// Package reglement reads the official text of a game (règlement particulier,
// amendment, notice, Belgian decree) into game.Game. It aims at how such texts are
// written, not at certain files: tables drawn with pipes on one line or many, a
// cell to a line, columns of spaces, prizes listed in a sentence, totals only. It
// compares every printed figure with the others and names what disagrees; what a
// text does not say stays unknown. It reads no file and no network.
// Start at Parse: text.go makes cells, table.go rows, facts.go the rest.
package reglement

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"grattoir/validate/game"
)

// MaxSize is the longest text read, in bytes. The longest regulation known has
// under 100 kB.
const MaxSize = 4 << 20

var (
	// ErrTooLarge means that the input has more than MaxSize bytes.
	ErrTooLarge = errors.New("larger than 4 MiB: a regulation is a few pages; give only its text")
	// ErrNotText means that the input is no plain text in UTF-8 or Latin-1.
	ErrNotText = errors.New("not plain text: save the regulation as text in UTF-8 or Latin-1 and import that")
)

// Parse reads a regulation from r, in UTF-8 or Latin-1 (Windows-1252 included).
// It fails only when there is no text to read; a text in which nothing is found
// is a game with the status no-table. The game's Source holds the SHA-256 of the
// bytes read; its name is the caller's to fill in.
func Parse(r io.Reader) (game.Game, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return game.Game{}, fmt.Errorf("read regulation: %w", err)
	}
	if len(raw) > MaxSize {
		return game.Game{}, fmt.Errorf("regulation: byte %d: %w", MaxSize+1, ErrTooLarge)
	}
	text, err := decode(raw)
	if err != nil {
		return game.Game{}, fmt.Errorf("regulation: %w", err)
	}
	doc := normalize(text)
	g := doc.facts()
	doc.tables(&g)
	g.ID = game.Slug(g.Name)
	g.Status = g.Judge()
	sum := sha256.Sum256(raw)
	g.Source = game.Source{SHA256: hex.EncodeToString(sum[:])}
	if err := g.Validate(); err != nil {
		return game.Game{}, fmt.Errorf("regulation: the figures read contradict each other in a way that has no finding: %w", err)
	}
	return g, nil
}

// decode turns the input into UTF-8. A text with several well-formed UTF-8
// letters and a bad byte is damaged UTF-8, not Latin-1: reading it as Latin-1
// would lose its currency signs without a word.
func decode(raw []byte) (string, error) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(raw)) == 0 {
		return "", fmt.Errorf("the text is empty: %w", ErrNotText)
	}
	for i, b := range raw {
		if b == 0 {
			return "", place(raw, i, "NUL byte (UTF-16, or a binary file)", ErrNotText)
		}
		if (b < ' ' && b != '\t' && b != '\n' && b != '\r' && b != '\f' && b != '\v') || b == 0x7f {
			return "", place(raw, i, fmt.Sprintf("control character 0x%02x", b), ErrNotText)
		}
	}
	if bytes.HasPrefix(raw, []byte("%PDF-")) {
		return "", place(raw, 0, "a PDF file", ErrNotText)
	}
	bad, letters := invalidUTF8(raw)
	if bad < 0 {
		return string(raw), nil
	}
	if letters > 0 {
		if tail := raw[bad:]; len(tail) < utf8.UTFMax && !utf8.FullRune(tail) {
			return string(raw[:bad]), nil // cut inside its last letter
		}
		return "", place(raw, bad, fmt.Sprintf("byte 0x%02x is not UTF-8, though the text around it is", raw[bad]), ErrNotText)
	}
	return latin1(raw)
}

// invalidUTF8 finds the first byte that is not UTF-8 (-1: none) and counts the
// well-formed letters outside ASCII in the whole text.
func invalidUTF8(raw []byte) (bad, letters int) {
	bad = -1
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			if bad < 0 {
				bad = i
			}
		case size > 1:
			letters++
		}
		i += size
	}
	return bad, letters
}

// latin1 reads Windows-1252, which is Latin-1 with printable signs, the euro's
// among them, where Latin-1 has control characters.
func latin1(raw []byte) (string, error) {
	const from0x80 = "€\x00‚ƒ„…†‡ˆ‰Š‹Œ\x00Ž\x00\x00‘’“”•–—˜™š›œ\x00žŸ"
	signs := []rune(from0x80)
	out := make([]rune, 0, len(raw))
	for i, b := range raw {
		r := rune(b)
		if b >= 0x80 && b < 0xa0 {
			if r = signs[b-0x80]; r == 0 {
				return "", place(raw, i, fmt.Sprintf("byte 0x%02x is neither UTF-8 nor Latin-1", b), ErrNotText)
			}
		}
		out = append(out, r)
	}
	return string(out), nil
}

func place(raw []byte, at int, what string, err error) error {
	return fmt.Errorf("line %d, byte %d: %s: %w", 1+bytes.Count(raw[:at], []byte("\n")), at+1, what, err)
}
