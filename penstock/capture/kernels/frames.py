"""Where the fields are: WAL messages and COPY rows framed into offsets and lengths, no value looked at.

A field is (offset, length, format) into the chunk's bytes. Length -1 is NULL, -2 is a value the WAL did not carry.
Every read is inside its own message: bytes that do not follow the protocol give MALFORMED, never a wrong field.
"""

from __future__ import annotations

import numba as nb

from penstock.capture.kernels.big_endian import byte as _byte
from penstock.capture.kernels.big_endian import int16 as _int16
from penstock.capture.kernels.big_endian import int32 as _int32
from penstock.capture.kernels.big_endian import int64 as _int64
from penstock.capture.kernels.big_endian import uint32 as _uint32

NULL, ABSENT = -1, -2
OK, NO_ROOM, MALFORMED = 0, 1, 2

# How messages are wrapped: in CopyData of a WAL sender, or as the only field of rows of a binary COPY.
STREAM, PULL = 0, 1

# Columns of the arrays the WAL kernel writes. TOP and SUB are transaction ids of rows whose commit may come after
# those of others (streamed or prepared); TOP is 0 for a row between an ordinary Begin and its Commit.
REL, OP, WEIGHT, FIRST, COUNT, BORROWED, SEQ, TOP, SUB, ROW_WIDTH = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
TXN_ROWS, TXN_LSN, TXN_TS, TXN_XID, TXN_WIDTH = 0, 1, 2, 3, 4
CTL_START, CTL_END, CTL_TXNS, CTL_ROWS, CTL_TOP, CTL_WIDTH = 0, 1, 2, 3, 4, 5
OFFSET, LENGTH, FORMAT, FIELD_WIDTH = 0, 1, 2, 3
# What lives on from one chunk to the next. PASSED is the end of the log that is known already: an ordinary transaction
# that committed before it is skipped.
IN_TXN, NEXT_SEQ, XID, TS, KEEPALIVE_END, KEEPALIVE_TS, REPLY_ASKED, PASSED, NEXT_STREAMED_SEQ, STATE_WIDTH = range(10)
_NONE, _ORDINARY, _SKIPPED, _STREAMED, _PREPARED = 0, 1, 2, 3, 4

_B, _C, _D, _E, _I, _K, _N, _O, _P, _S, _T, _U = (ord(c) for c in "BCDEIKNOPSTU")
_b, _k, _n, _t, _u, _w = (ord(c) for c in "bkntuw")
_XLOG_HEADER = 25  # 'w', start LSN, end LSN, server time
_COPY_HEADER = 6  # field count, length


@nb.njit("Tuple((int64, int64, int64))(uint8[::1], int64, int64, int64[:,::1], int64)", cache=True)
def _tuple(data, at, end, fields, count):  # type: ignore[no-untyped-def]
    """One TupleData: (bytes up to here, fields written, code)."""
    if at + 2 > end:
        return at, count, MALFORMED
    columns = _int16(data, at)
    at += 2
    if columns < 0 or count + columns > fields.shape[0]:
        return at, count, MALFORMED if columns < 0 else NO_ROOM
    for _ in range(columns):
        if at >= end:
            return at, count, MALFORMED
        kind, field = _byte(data, at), nb.uint64(count)
        at += 1
        if kind in (_b, _t):
            if at + 4 > end:
                return at, count, MALFORMED
            length = _int32(data, at)
            at += 4
            if length < 0 or at + length > end:
                return at, count, MALFORMED
            fields[field, OFFSET] = at
            fields[field, LENGTH] = length
            fields[field, FORMAT] = kind
            at += length
        elif kind in (_n, _u):
            fields[field, OFFSET] = 0
            fields[field, LENGTH] = NULL if kind == _n else ABSENT
            fields[field, FORMAT] = 0
        else:
            return at, count, MALFORMED
        count += 1
    return at, count, OK


@nb.njit("void(int64[:,::1], int64, int64, int64, int64, int64, int64, int64, int64, int64[::1])", cache=True)
def _row(rows, at, relation, op, weight, first, count, borrowed, sub, state):  # type: ignore[no-untyped-def]
    rows[at, REL] = relation
    rows[at, OP] = op
    rows[at, WEIGHT] = weight
    rows[at, FIRST] = first
    rows[at, COUNT] = count
    rows[at, BORROWED] = borrowed
    if state[IN_TXN] == _ORDINARY:
        rows[at, TOP], rows[at, SUB] = 0, 0
        rows[at, SEQ] = state[NEXT_SEQ]
        state[NEXT_SEQ] += 1
    else:  # blocks of one transaction lie apart: the order over all of them is its order too
        rows[at, TOP], rows[at, SUB] = state[XID], sub
        rows[at, SEQ] = state[NEXT_STREAMED_SEQ]
        state[NEXT_STREAMED_SEQ] += 1


@nb.njit(
    "Tuple((int64, int64, int64))"
    "(uint8[::1], int64, int64, int64, int64, int64[:,::1], int64, int64[:,::1], int64, int64[::1])",
    cache=True,
)
def _change(data, kind, at, end, sub, rows, row, fields, field, state):  # type: ignore[no-untyped-def]
    """One Insert, Update or Delete: (rows, fields, code). An update is its old row, then its new one."""
    if at + 5 > end:
        return row, field, MALFORMED
    relation, part = _uint32(data, at), data[at + 4]
    at += 5
    old, old_count = -1, 0
    if kind != _I and part in (_K, _O):
        old = field
        at, field, code = _tuple(data, at, end, fields, field)
        if code != OK:
            return row, field, code
        old_count = field - old
        if part == _K:  # columns outside the key come as NULL; a key column is never NULL
            for i in range(old, field):
                if fields[i, LENGTH] == NULL:
                    fields[i, LENGTH] = ABSENT
        if kind == _D:
            _row(rows, row, relation, _D, -1, old, old_count, 0, sub, state)
            return row + 1, field, OK if at == end else MALFORMED
        if at >= end:
            return row, field, MALFORMED
        part = data[at]
        at += 1
    if part != _N or kind == _D:
        return row, field, MALFORMED
    new = field
    at, field, code = _tuple(data, at, end, fields, field)
    if code != OK or at != end:
        return row, field, MALFORMED if code == OK else code
    count = field - new
    if kind == _U:
        if old < 0:  # the key did not change: it is read from the new row, which knows nothing else of the old one
            _row(rows, row, relation, _U, -1, new, count, 1, sub, state)
        else:
            if old_count != count:
                return row, field, MALFORMED
            for i in range(count):  # an unchanged TOAST value stands in the old image, if there is one
                if fields[new + i, LENGTH] == ABSENT and fields[old + i, LENGTH] >= 0:
                    fields[new + i, OFFSET] = fields[old + i, OFFSET]
                    fields[new + i, LENGTH] = fields[old + i, LENGTH]
                    fields[new + i, FORMAT] = fields[old + i, FORMAT]
            _row(rows, row, relation, _U, -1, old, count, 0, sub, state)
        row += 1
    _row(rows, row, relation, kind, 1, new, count, 0, sub, state)
    return row + 1, field, OK


@nb.njit(
    "Tuple((int64, int64))(uint8[::1], int64, int64, int64, int64[:,::1], int64, int64[::1])",
    cache=True,
)
def _truncate(data, at, end, sub, rows, row, state):  # type: ignore[no-untyped-def]
    """One Truncate, a row without values per relation: (rows, code)."""
    if end - at < 5 or end - at != 5 + 4 * _int32(data, at):
        return row, MALFORMED
    relations = _int32(data, at)
    if row + relations > rows.shape[0]:
        return row, NO_ROOM
    for i in range(relations):
        _row(rows, row, _uint32(data, at + 5 + 4 * i), _T, 0, -1, 0, 0, sub, state)
        row += 1
    return row, OK


@nb.njit("int64(uint8[::1], int64, int64, int64, int64[::1])", cache=True)
def _boundary(data, kind, at, end, state):  # type: ignore[no-untyped-def]
    """Begin, Begin Prepare, Prepare, Stream Start and Stop open and close what rows belong to."""
    inside = state[IN_TXN]
    if kind in (_E, _P):
        if inside != (_STREAMED if kind == _E else _PREPARED):
            return MALFORMED
        state[IN_TXN] = _NONE
        return OK
    if inside != _NONE:
        return MALFORMED
    if kind == _B:
        if end - at != 20:
            return MALFORMED
        state[IN_TXN] = _SKIPPED if _int64(data, at) < state[PASSED] else _ORDINARY
        state[NEXT_SEQ] = 0
        state[TS], state[XID] = _int64(data, at + 8), _uint32(data, at + 16)
    elif kind == _b:
        if end - at < 29:
            return MALFORMED
        state[IN_TXN], state[XID] = _PREPARED, _uint32(data, at + 24)
    else:
        if end - at != 5:
            return MALFORMED
        state[IN_TXN], state[XID] = _STREAMED, _uint32(data, at)
    return OK


@nb.njit(
    "Tuple((int64, int64, int64, int64))(uint8[::1], int64, int64[::1], int64, int64, int64[::1],"
    " int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1])",
    nogil=True,
    cache=True,
)
def scan_wal(data, start, ends, messages, framing, state, rows, transactions, controls, fields):  # type: ignore[no-untyped-def]
    """All messages of a chunk, of which the first begins at `start`: (rows, transactions, controls, code).

    Changes become rows, Commits close transactions, keepalives go into `state`; Relation and every other message is
    listed in `controls` for Python. With NO_ROOM the caller makes the arrays larger and scans the chunk again.
    """
    row, txn, control, field = 0, 0, 0, 0
    for message in range(messages):
        end = ends[message]
        at = start
        start = end
        if framing == STREAM:
            if end - at == 18 and data[at] == _k:
                state[KEEPALIVE_END] = max(state[KEEPALIVE_END], _int64(data, at + 1))
                state[KEEPALIVE_TS] = max(state[KEEPALIVE_TS], _int64(data, at + 9))
                state[REPLY_ASKED] = max(state[REPLY_ASKED], nb.int64(data[at + 17]))
                continue
            if at + _XLOG_HEADER >= end or data[at] != _w:
                return row, txn, control, MALFORMED
            at += _XLOG_HEADER
        else:
            if end - at == 2 and _int16(data, at) == -1:
                continue  # the trailer
            if at + _COPY_HEADER >= end or _int16(data, at) != 1 or _int32(data, at + 2) != end - at - _COPY_HEADER:
                return row, txn, control, MALFORMED
            at += _COPY_HEADER
        if row + 2 > rows.shape[0] or txn >= transactions.shape[0] or control >= controls.shape[0]:
            return row, txn, control, NO_ROOM
        kind = nb.int64(data[at])
        at += 1
        if kind in (_I, _U, _D, _T):
            sub = nb.int64(0)
            if state[IN_TXN] == _SKIPPED:
                continue
            if state[IN_TXN] == _STREAMED:
                if at + 4 > end:
                    return row, txn, control, MALFORMED
                sub = _uint32(data, at)
                at += 4
            elif state[IN_TXN] == _NONE:
                return row, txn, control, MALFORMED
            if kind == _T:
                row, code = _truncate(data, at, end, sub, rows, row, state)
            else:
                row, field, code = _change(data, kind, at, end, sub, rows, row, fields, field, state)
            if code != OK:
                return row, txn, control, code
        elif kind == _C:
            if end - at != 25 or state[IN_TXN] not in (_ORDINARY, _SKIPPED):
                return row, txn, control, MALFORMED
            if state[IN_TXN] == _ORDINARY:
                transactions[txn, TXN_ROWS] = row
                transactions[txn, TXN_LSN] = _int64(data, at + 9)
                transactions[txn, TXN_TS] = _int64(data, at + 17)
                transactions[txn, TXN_XID] = state[XID]
                txn += 1
            state[IN_TXN] = _NONE
        elif kind in (_B, _b, _P, _S, _E) and _boundary(data, kind, at, end, state) != OK:
            return row, txn, control, MALFORMED
        if kind in (_I, _U, _D, _T, _C, _B, _S, _E):
            continue
        controls[control, CTL_START] = at - 1
        controls[control, CTL_END] = end
        controls[control, CTL_TXNS] = txn
        controls[control, CTL_ROWS] = row
        controls[control, CTL_TOP] = state[XID] if state[IN_TXN] == _STREAMED else 0
        control += 1
    return row, txn, control, OK


@nb.njit("Tuple((int64, int64))(uint8[::1], int64, int64, int64, int64[:,::1], uint8[::1])", nogil=True, cache=True)
def scan_copy(data, at, end, columns, fields, formats):  # type: ignore[no-untyped-def]
    """Rows of a binary COPY: (rows, code). The trailer, a field count of -1, ends them."""
    row, field = 0, 0
    while at < end:
        if at + 2 > end:
            return row, MALFORMED
        found = _int16(data, at)
        at += 2
        if found == -1 and at == end:
            return row, OK
        if found != columns:
            return row, MALFORMED
        if field + columns > fields.shape[0]:
            return row, NO_ROOM
        for column in range(columns):
            if at + 4 > end:
                return row, MALFORMED
            length = _int32(data, at)
            at += 4
            if length < -1 or (length > 0 and at + length > end):
                return row, MALFORMED
            fields[field, OFFSET] = at
            fields[field, LENGTH] = length
            fields[field, FORMAT] = formats[column]
            at += max(length, 0)
            field += 1
        row += 1
    return row, OK


@nb.njit(
    "int64(int64[::1], int64[::1], uint8[::1], int64[:,::1], int64[:,::1], int64[:,::1], uint8[::1])",
    nogil=True,
    cache=True,
)
def by_column(first, borrowed, key, fields, offsets, lengths, formats):  # type: ignore[no-untyped-def]
    """Fields of chosen rows, a line per column. -1, or the first column whose values come in both formats.

    `first` is -1 for a row without values (a truncate). A borrowed row is an old one whose key stands in the new row.
    """
    columns = offsets.shape[0]
    for row in range(first.size):
        for column in range(columns):
            if first[row] < 0:
                offsets[column, row], lengths[column, row] = 0, NULL
                continue
            field = nb.uint64(first[row] + column)
            offsets[column, row] = fields[field, OFFSET]
            lengths[column, row] = fields[field, LENGTH]
            if borrowed[row] and not key[column]:
                lengths[column, row] = ABSENT
            if lengths[column, row] >= 0:
                if formats[column] == 0:
                    formats[column] = fields[field, FORMAT]
                elif formats[column] != fields[field, FORMAT]:
                    return column
    return -1
