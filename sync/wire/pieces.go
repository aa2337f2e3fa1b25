package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// MaxPieces is the bytes of a block's descriptor: one of MaxBlock has 256 pieces.
const MaxPieces = 24 << 10

// Pieces is a block's descriptor: the SHA-256 of each PieceSize bytes of its file, the
// last piece being shorter. The snapshot names it by the SHA-256 of its Text, so that a
// terminal can believe it, and a wrong piece costs that piece and not the file.
type Pieces struct {
	Block string // SHA-256 of the whole file
	Size  int64
	Sums  [][sha256.Size]byte
}

// ReadPieces makes the descriptor of a file's bytes.
func ReadPieces(r io.Reader) (Pieces, error) {
	var p Pieces
	whole := sha256.New()
	for {
		piece := sha256.New()
		n, err := io.CopyN(io.MultiWriter(whole, piece), r, PieceSize)
		p.Size += n
		if n > 0 {
			p.Sums = append(p.Sums, [sha256.Size]byte(piece.Sum(nil)))
		}
		switch {
		case errors.Is(err, io.EOF):
			p.Block = hex.EncodeToString(whole.Sum(nil))
			return p, nil
		case err != nil:
			return Pieces{}, err
		case p.Size > MaxBlock:
			return Pieces{}, fmt.Errorf("more than the %d bytes that a block may have", MaxBlock)
		}
	}
}

// Text is the descriptor's one form.
func (p Pieces) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "grattoir pieces v1\nblock %s\nsize %d\npiece %d\n", p.Block, p.Size, PieceSize)
	for _, s := range p.Sums {
		fmt.Fprintf(&b, "%x\n", s)
	}
	return b.String()
}

// Name is what the snapshot calls the descriptor: the SHA-256 of its text.
func (p Pieces) Name() string {
	sum := sha256.Sum256([]byte(p.Text()))
	return hex.EncodeToString(sum[:])
}

// ParsePieces reads what Text writes, and nothing else.
func ParsePieces(text string) (Pieces, error) {
	var p Pieces
	if len(text) > MaxPieces {
		return p, fmt.Errorf("descriptor: %w: %d bytes", ErrText, len(text))
	}
	var piece int64
	lines := strings.Split(text, "\n")
	if len(lines) < 6 {
		return p, fmt.Errorf("descriptor: %w: %d lines", ErrText, len(lines))
	}
	if _, err := fmt.Sscanf(strings.Join(lines[:4], "\n"), "grattoir pieces v1\nblock %64s\nsize %d\npiece %d", &p.Block, &p.Size, &piece); err != nil {
		return p, fmt.Errorf("descriptor: %w: %w", ErrText, err)
	}
	for _, line := range lines[4 : len(lines)-1] {
		raw, err := hex.DecodeString(line)
		if err != nil || len(raw) != sha256.Size {
			return p, fmt.Errorf("descriptor: %w: %.70q is no SHA-256", ErrText, line)
		}
		p.Sums = append(p.Sums, [sha256.Size]byte(raw))
	}
	if want := (p.Size + PieceSize - 1) / PieceSize; p.Size < 1 || int64(len(p.Sums)) != want || !isSHA256(p.Block) || p.Text() != text {
		return p, fmt.Errorf("descriptor: %w: %d pieces of %d bytes for %d", ErrText, len(p.Sums), piece, p.Size)
	}
	return p, nil
}

// Holds tells whether bytes are the piece of that number, counted from 0.
func (p Pieces) Holds(n int, sum []byte) bool {
	return n < len(p.Sums) && bytes.Equal(p.Sums[n][:], sum)
}

// isSHA256 tells whether a text is a SHA-256 in lower-case hexadecimal.
func isSHA256(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && hex.EncodeToString(raw) == text
}
