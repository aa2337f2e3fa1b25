package manifest

import "crypto/sha256"

// The tree is that of RFC 6962, section 2.1: a leaf is SHA-256(0x00 || chunk), a node
// SHA-256(0x01 || left || right), and a range splits at the largest power of two below
// its length.

// Hash is a node of the tree.
type Hash = [sha256.Size]byte

// LeafHash is the leaf of a chunk.
func LeafHash(chunk []byte) Hash {
	var buf [1 + ChunkTickets*TagBytes]byte
	return sha256.Sum256(append(buf[:1], chunk...)) // buf[0] is 0x00
}

// RootHash is the root over leaves or over the roots of equal, aligned subtrees of a power of two of them.
func RootHash(nodes []Hash) Hash {
	switch len(nodes) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return nodes[0]
	}
	k := 1
	for k*2 < len(nodes) {
		k *= 2
	}
	left, right := RootHash(nodes[:k]), RootHash(nodes[k:])
	var buf [1 + 2*sha256.Size]byte
	buf[0] = 0x01
	copy(buf[1:], left[:])
	copy(buf[1+sha256.Size:], right[:])
	return sha256.Sum256(buf[:])
}

// groupLeaves leaves form a subtree whose root a terminal keeps in memory: 36 kB for
// 9 000 000 tickets, where all leaves would take 576 kB a block. A look-up reads the
// group's leaves again and proves them by it.
const groupLeaves = 16

func groupRoots(leaves []Hash) []Hash {
	roots := make([]Hash, 0, (len(leaves)+groupLeaves-1)/groupLeaves)
	for len(leaves) > 0 {
		n := min(groupLeaves, len(leaves))
		roots = append(roots, RootHash(leaves[:n]))
		leaves = leaves[n:]
	}
	return roots
}
