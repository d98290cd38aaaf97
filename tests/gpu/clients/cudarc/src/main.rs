//! A Rust client in a limited container: it uses the card without asking for its memory, sees its share, fills it, and is
//! refused with OUT_OF_MEMORY.
//!
//!   cudarc-client SHARE_IN_BYTES
use cudarc::driver::{result::mem_get_info, sys::CUresult, CudaContext, DriverError};

const PIECE: usize = 64 << 20;

fn main() -> Result<(), DriverError> {
    let share: usize = std::env::args().nth(1).expect("usage: cudarc-client SHARE_IN_BYTES").parse().expect("bytes");
    let context = CudaContext::new(0)?;
    let stream = context.default_stream();
    let numbers: Vec<f32> = (0..1024).map(|each| each as f32).collect();
    let there = stream.clone_htod(&numbers)?;
    assert_eq!(stream.clone_dtoh(&there)?, numbers);
    drop(there);
    stream.synchronize()?;
    assert_eq!((context.total_mem()?, mem_get_info()?.1), (share, share));
    let mut held = vec![];
    let refusal = loop {
        match stream.alloc_zeros::<u8>(PIECE) {
            Ok(piece) => held.push(piece),
            Err(error) => break error,
        }
        assert!(held.len() <= share / PIECE, "more than the share could be allocated");
    };
    assert_eq!(refusal.0, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    let free = mem_get_info()?.0;
    assert!(held.len() + 1 >= share / PIECE && free < PIECE, "{} pieces, {free} bytes are free", held.len());
    println!("cudarc: share {} MiB, {} times 64 MiB, then refused", share >> 20, held.len());
    Ok(())
}
